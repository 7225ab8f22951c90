//! The contents of a member's namespace, of every kind that the member has.

use limen_core::namespace_contents::NamespaceContents;

use crate::discovery::{is_permanent, listable_kinds};
use crate::member_error::MemberError;
use crate::object_api::ObjectApi;

/// Lists everything in a namespace. Kinds that cannot be listed are named.
pub(crate) async fn contents(
    api: &ObjectApi,
    namespace: &str,
) -> Result<NamespaceContents, MemberError> {
    let found = listable_kinds(api).await?;
    let mut contents = NamespaceContents { objects: Vec::new(), unlistable: found.unreadable };
    for kind in found.kinds {
        match api.list_metadata_in(&kind, namespace).await {
            Ok(objects) => {
                contents
                    .objects
                    .extend(objects.into_iter().map(|object| (kind.kind.clone(), object)));
            }
            Err(kube::Error::Api(status)) if is_permanent(status.code) => {
                contents.unlistable.push(format!("{}: {}", kind.plural, status.message));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(contents)
}
