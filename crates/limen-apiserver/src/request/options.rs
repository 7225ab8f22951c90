//! The query of a request.

use serde_json::json;

use super::{FieldSelector, LabelSelector};
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};

/// Everything that a query can say. Which of it counts depends on the verb.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    /// The revision given; `None` if there is none, 0 if any will do.
    pub(crate) version: Option<u64>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) force: Option<bool>,
    pub(crate) propagation: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) grace_period: Option<i64>,
    pub(crate) include_object: Option<String>,
    pub(crate) pretty: bool,
}

/// How a given resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

impl Options {
    pub(crate) fn parse(query: &str) -> ApiResult<Self> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            options.set(&name, &value)?;
        }
        options.check()?;
        Ok(options)
    }

    /// The same, for one object.
    pub(crate) fn only(mut self, name: &str) -> Self {
        self.fields = self.fields.and_name(name);
        self
    }

    fn set(&mut self, name: &str, value: &str) -> ApiResult<()> {
        match name {
            "watch" => self.watch = flag(value),
            "allowWatchBookmarks" => self.bookmarks = flag(value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(value)),
            "timeoutSeconds" => self.timeout_seconds = Some(number(value)?),
            "labelSelector" => self.labels = LabelSelector::parse(value)?,
            "fieldSelector" => self.fields = FieldSelector::parse(value)?,
            "limit" => {
                let limit: i64 = number(value)?;
                self.limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
            }
            "continue" => self.continue_token = some(value),
            "resourceVersion" => self.version = parse_version(value)?,
            "resourceVersionMatch" => {
                self.version_match = match value {
                    "" => None,
                    "Exact" => Some(VersionMatch::Exact),
                    "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                    _ => return Err(bad_version_match(value)),
                }
            }
            "dryRun" => {
                if value != "All" {
                    let error = FieldError::not_supported(
                        &FieldPath::new("dryRun"),
                        &json!([value]),
                        &["All"],
                    );
                    return Err(invalid_options(&error));
                }
                self.dry_run = true;
            }
            "fieldManager" => self.field_manager = some(value),
            "fieldValidation" => self.field_validation = some(value),
            "force" => self.force = Some(flag(value)),
            "propagationPolicy" => self.propagation = some(value),
            "orphanDependents" => self.orphan_dependents = Some(flag(value)),
            "gracePeriodSeconds" => self.grace_period = Some(number(value)?),
            "includeObject" => self.include_object = some(value),
            "pretty" => self.pretty = flag(value),
            // As the real server, which takes what it does not know for a client's own affair.
            _ => {}
        }
        Ok(())
    }

    /// Refuses what contradicts itself.
    fn check(&self) -> ApiResult<()> {
        let path = |name: &str| FieldPath::new(name);
        let forbid = |field: &str, detail: &str| {
            Err(invalid_options(&FieldError::forbidden(&path(field), detail)))
        };
        if self.send_initial_events.is_some() && !self.watch {
            return forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if self.watch {
            if self.send_initial_events.is_some()
                && self.version_match != Some(VersionMatch::NotOlderThan)
            {
                let detail =
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return forbid("resourceVersionMatch", detail);
            }
            if self.version_match.is_some() && self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                return forbid("resourceVersionMatch", detail);
            }
            return Ok(());
        }
        if let Some(wanted) = self.version_match {
            if self.version.is_none() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                return forbid("resourceVersionMatch", detail);
            }
            if self.continue_token.is_some() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                return forbid("resourceVersionMatch", detail);
            }
            if wanted == VersionMatch::Exact && self.version == Some(0) {
                let detail =
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                return forbid("resourceVersionMatch", detail);
            }
        }
        Ok(())
    }
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Anything but a clear no is a yes, as the real server reads flags.
fn flag(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn number<T: std::str::FromStr>(value: &str) -> ApiResult<T> {
    value.parse().map_err(|_| {
        ApiError::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
    })
}

/// A resourceVersion as clients send it: empty is none.
pub(crate) fn parse_version(value: &str) -> ApiResult<Option<u64>> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| {
        let detail = format!("strconv.ParseUint: parsing {value:?}: invalid syntax");
        let error = FieldError::invalid(&FieldPath::new("resourceVersion"), &json!(value), &detail);
        ApiError::bad_request(format!(" \"\" is invalid: {error}"))
    })
}

fn bad_version_match(value: &str) -> ApiError {
    let supported = ["Exact", "NotOlderThan"];
    let path = FieldPath::new("resourceVersionMatch");
    invalid_options(&FieldError::not_supported(&path, &json!(value), &supported))
}

fn invalid_options(error: &FieldError) -> ApiError {
    let subject = Subject { group: "meta.k8s.io", resource: "ListOptions" };
    ApiError::invalid(subject, "", std::slice::from_ref(error))
}
