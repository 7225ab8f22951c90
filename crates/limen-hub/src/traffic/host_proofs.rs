//! Proofs that roots need for their hosts.

use super::Traffic;
use super::compiling::RootEntry;
use crate::effects::host_verification::Looked;

impl Traffic {
    /// Asks for what roots need, if some have come, gone or changed.
    pub(super) fn look_for_proofs(&mut self) {
        let Some(verification) =
            self.verification.as_mut().filter(|_| std::mem::take(&mut self.prove))
        else {
            return;
        };
        let roots = self.roots.values().filter_map(RootEntry::claimed);
        let wanted = roots.flat_map(|root| verification.proofs.of_root(root)).collect();
        verification.follow(&wanted);
    }

    /// A record is there, or is not there yet.
    pub(crate) fn looked(&mut self, Looked { proof, found }: Looked) {
        let Some(verification) = &mut self.verification else { return };
        // Also of others, who lose what they have claimed without a proof.
        let concerned: Vec<_> = self
            .roots
            .iter()
            .filter(|(_, known)| known.claimed().is_some_and(|root| proof.is_about(root)))
            .map(|(id, _)| id.clone())
            .collect();
        verification.looked(Looked { proof, found });
        self.dirty.extend(concerned);
    }
}
