//! The command line of kube-apiserver.

use crate::{
    ClientTls, Error, Etcd,
    certificates::{Authority, ServingTls, SigningKey},
    folder::Folder,
};

pub(crate) const NAME: &str = "kube-apiserver";

/// Everything about a control plane that is signed, made once per start.
pub(crate) struct Certificates {
    pub(crate) serving: ServingTls,
    /// Its group may do everything.
    pub(crate) admin: ClientTls,
    pub(crate) service_accounts: SigningKey,
}

impl Certificates {
    pub(crate) fn new() -> Result<Self, Error> {
        let make = || {
            let authority = Authority::new("limen-testbed kubernetes")?;
            Ok(Self {
                serving: authority.serving()?,
                admin: authority.client("limen-testbed-admin", "system:masters")?,
                service_accounts: SigningKey::new()?,
            })
        };
        make().map_err(|source| Error::MakeCertificates { program: NAME, source })
    }
}

/// The arguments that do not depend on the port; writes the files they name.
pub(crate) fn args(
    folder: &Folder,
    certificates: &Certificates,
    etcd: &Etcd,
) -> Result<Vec<String>, Error> {
    let Certificates { serving, admin, service_accounts } = certificates;
    let mut args = vec![
        format!("--etcd-servers={}", etcd.endpoint()),
        folder.flag("--tls-cert-file", "serving.crt", &serving.cert_pem)?,
        folder.flag("--tls-private-key-file", "serving.key", &serving.key_pem)?,
        folder.flag("--client-ca-file", "ca.crt", &admin.ca_pem)?,
        folder.flag(
            "--service-account-signing-key-file",
            "service-accounts.key",
            &service_accounts.private_pem,
        )?,
        folder.flag(
            "--service-account-key-file",
            "service-accounts.pub",
            &service_accounts.public_pem,
        )?,
    ];
    if let Some(tls) = etcd.client_tls() {
        args.push(folder.flag("--etcd-cafile", "etcd-ca.crt", &tls.ca_pem)?);
        args.push(folder.flag("--etcd-certfile", "etcd-client.crt", &tls.cert_pem)?);
        args.push(folder.flag("--etcd-keyfile", "etcd-client.key", &tls.key_pem)?);
    }
    args.extend(
        [
            "--bind-address=127.0.0.1",
            // The default is the address of the default route, which a test
            // machine need not have.
            "--advertise-address=127.0.0.1",
            // An Endpoints object may not name a loopback address, so the one of
            // the `kubernetes` service cannot be kept.
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-cluster-ip-range=10.0.0.0/24",
            // Pods can be created without a controller manager, which would have
            // to make their service account first.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ]
        .map(String::from),
    );
    Ok(args)
}
