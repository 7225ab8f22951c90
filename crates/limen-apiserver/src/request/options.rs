//! The query of a request.
//!
//! Reading a query never fails: a parameter that the verb does not look at may say anything. What
//! is wrong with the others comes out of [`Options::check`], once the verb is known.

use serde_json::json;

use super::{FieldSelector, LabelSelector, Verb};
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};

/// Everything that a query can say. Which of it counts depends on the verb.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<i64>,
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
    given: Given,
}

/// What was written, where the error about it shows it.
#[derive(Clone, Debug, Default)]
struct Given {
    version: String,
    version_match: String,
    dry_run: Vec<String>,
    /// The first parameter of a list that cannot be read.
    bad_list: Option<ApiError>,
    /// The first parameter of a delete that cannot be read.
    bad_delete: Option<ApiError>,
}

/// How a given resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

impl Options {
    pub(crate) fn parse(query: &str) -> Self {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        // The real server passes over what is not well-formed.
        let pairs = query.split('&').filter(|pair| is_well_formed(pair));
        for (name, value) in pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes())) {
            if name == "dryRun" {
                options.given.dry_run.push(value.into_owned());
            } else if !seen.iter().any(|seen| *seen == name) {
                // Of what is given twice the first counts.
                options.set(&name, &value);
                seen.push(name.into_owned());
            }
        }
        options.dry_run = !options.given.dry_run.is_empty();
        options
    }

    /// The same, for one object.
    pub(crate) fn only(mut self, name: &str) -> Self {
        self.fields = self.fields.and_name(name);
        self
    }

    /// The same, for everything that there is at this moment.
    pub(crate) fn of_now(self) -> Self {
        Self { limit: None, continue_token: None, version: None, version_match: None, ..self }
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "watch" => self.watch = flag(value),
            "allowWatchBookmarks" => self.bookmarks = flag(value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(value)),
            "timeoutSeconds" => self.timeout_seconds = self.of_list(number(value)),
            "labelSelector" => {
                self.labels = self.of_list(LabelSelector::parse(value)).unwrap_or_default();
            }
            "fieldSelector" => {
                self.fields = self.of_list(FieldSelector::parse(value)).unwrap_or_default();
            }
            "limit" => {
                let limit = self.of_list(number::<i64>(value)).unwrap_or_default();
                self.limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
            }
            "continue" => self.continue_token = some(value),
            "resourceVersion" => {
                self.given.version = value.to_owned();
                self.version = value.parse().ok();
            }
            "resourceVersionMatch" => {
                self.given.version_match = value.to_owned();
                self.version_match = match value {
                    EXACT => Some(VersionMatch::Exact),
                    NOT_OLDER_THAN => Some(VersionMatch::NotOlderThan),
                    _ => None,
                };
            }
            "fieldManager" => self.field_manager = some(value),
            "fieldValidation" => self.field_validation = some(value),
            "force" => self.force = Some(flag(value)),
            "propagationPolicy" => self.propagation = some(value),
            "orphanDependents" => self.orphan_dependents = Some(flag(value)),
            "gracePeriodSeconds" => match number(value) {
                Ok(seconds) => self.grace_period = Some(seconds),
                Err(error) => self.given.bad_delete = Some(error),
            },
            "includeObject" => self.include_object = some(value),
            "pretty" => self.pretty = flag(value),
            // As the real server, which takes what it does not know for a client's own affair.
            _ => {}
        }
    }

    /// Keeps the first parameter of a list that cannot be read.
    fn of_list<T>(&mut self, read: ApiResult<T>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.given.bad_list.get_or_insert(error);
                None
            }
        }
    }

    /// Refuses what makes no sense for a verb.
    pub(crate) fn check(&self, verb: Verb) -> ApiResult<()> {
        if matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
            if let Some(error) = &self.given.bad_list {
                return Err(error.clone());
            }
            refuse("ListOptions", &self.list_errors(verb))?;
        }
        if matches!(verb, Verb::Delete | Verb::DeleteCollection)
            && let Some(error) = &self.given.bad_delete
        {
            return Err(error.clone());
        }
        if verb.is_mutating() && self.given.dry_run.iter().any(|stage| stage != "All") {
            let path = FieldPath::new("dryRun");
            let error = FieldError::not_supported(&path, &json!(self.given.dry_run), &["All"]);
            refuse(verb.options_kind(), &[error])?;
        }
        if verb.is_mutating() { Ok(()) } else { self.check_version(verb) }
    }

    fn check_version(&self, verb: Verb) -> ApiResult<()> {
        let version = &self.given.version;
        if version.is_empty() || self.version.is_some() {
            return Ok(());
        }
        let detail = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
        let path = FieldPath::new("resourceVersion");
        let error = FieldError::invalid(&path, &json!(version), &detail);
        // Only the list of the real server takes this for the client's fault.
        Err(match verb {
            Verb::List => ApiError::bad_request(format!("invalid resource version: {error}")),
            _ => ApiError::unexplained(error.to_string()),
        })
    }

    /// What contradicts itself.
    fn list_errors(&self, verb: Verb) -> Vec<FieldError> {
        let field = FieldPath::new("resourceVersionMatch");
        let given = self.given.version_match.as_str();
        let is_given = !given.is_empty();
        let forbidden = |detail: &str| FieldError::forbidden(&field, detail);
        let unsupported =
            |supported: &[&str]| FieldError::not_supported(&field, &json!(given), supported);
        let initial = self.send_initial_events.is_some();
        let continues = self.continue_token.is_some();
        let version = self.given.version.as_str();
        let found = if verb == Verb::Watch {
            vec![
                (
                    initial && given != NOT_OLDER_THAN,
                    forbidden(
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                    ),
                ),
                (
                    is_given && !initial,
                    forbidden(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    ),
                ),
                (is_given && given != NOT_OLDER_THAN, unsupported(&[NOT_OLDER_THAN])),
                (is_given && continues, forbidden(WITH_CONTINUE)),
            ]
        } else {
            vec![
                (
                    is_given && version.is_empty(),
                    forbidden(
                        "resourceVersionMatch is forbidden unless resourceVersion is provided",
                    ),
                ),
                (is_given && continues, forbidden(WITH_CONTINUE)),
                (
                    is_given && self.version_match.is_none(),
                    unsupported(&[EXACT, NOT_OLDER_THAN, ""]),
                ),
                (
                    given == EXACT && version == "0",
                    forbidden(
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ),
                ),
                (
                    initial,
                    FieldError::forbidden(
                        &FieldPath::new("sendInitialEvents"),
                        "sendInitialEvents is forbidden for list",
                    ),
                ),
            ]
        };
        found.into_iter().filter_map(|(wrong, error)| wrong.then_some(error)).collect()
    }
}

const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";
const WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

fn refuse(kind: &str, errors: &[FieldError]) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(Subject { group: "meta.k8s.io", resource: kind }, "", errors))
}

fn is_well_formed(pair: &str) -> bool {
    let escapes = pair.split('%').skip(1);
    let is_hex = |digit: u8| digit.is_ascii_hexdigit();
    let mut digits = escapes.map(|rest| rest.as_bytes().get(..2));
    !pair.contains(';') && digits.all(|two| two.is_some_and(|two| two.iter().all(|d| is_hex(*d))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_judged_by_the_verb() {
        let list = |rest: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {rest}");
        let version = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
        let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
        let cases = [
            (Verb::List, "limit=2&limit=many", 200, String::new()),
            (Verb::Get, "limit=many&labelSelector=,", 200, String::new()),
            (Verb::Create, "resourceVersion=abc&watch=maybe", 200, String::new()),
            (Verb::Create, "dryRun=All", 200, String::new()),
            (Verb::List, "labelSelector=%zz&limit=a;b&limit=%2", 200, String::new()),
            (
                Verb::List,
                "limit=many",
                400,
                "strconv.ParseInt: parsing \"many\": invalid syntax".to_owned(),
            ),
            (Verb::List, "resourceVersion=abc", 400, format!("invalid resource version: {version}")),
            (Verb::Get, "resourceVersion=abc", 500, version.to_owned()),
            (Verb::Watch, "watch=1&resourceVersion=abc", 500, version.to_owned()),
            (Verb::List, "resourceVersionMatch=Exact", 422, list(unless)),
            (
                Verb::List,
                "resourceVersionMatch=Exact&continue=x",
                422,
                list(&format!("[{unless}, resourceVersionMatch: Forbidden: {WITH_CONTINUE}]")),
            ),
            (
                Verb::List,
                "resourceVersion=5&resourceVersionMatch=Roughly",
                422,
                list(
                    "resourceVersionMatch: Unsupported value: \"Roughly\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
                ),
            ),
            (
                Verb::List,
                "sendInitialEvents=true",
                422,
                list("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            ),
            (
                Verb::Watch,
                "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
                422,
                list(
                    "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
                ),
            ),
            (
                Verb::Patch,
                "dryRun=Perhaps&dryRun=All",
                422,
                "PatchOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Perhaps\",\"All\"]: supported values: \"All\"".to_owned(),
            ),
        ];
        for (verb, query, code, message) in cases {
            let found = Options::parse(query).check(verb);
            let found =
                found.map_or_else(|e| (e.code.as_u16(), e.message), |()| (200, String::new()));
            assert_eq!(found, (code, message), "{verb:?} {query}");
        }
    }
}
