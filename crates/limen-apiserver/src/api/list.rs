//! Listing objects: all of them, those that selectors let through, or a page at a time.

use http::{Response, StatusCode};
use limen_store::{Page, Range, Revision};
use serde_json::{Value, json};

use super::continue_token::Token;
use super::{Api, Scope};
use crate::answer::{Body, Form, Tables, Wanted, jsonpath};
use crate::error::{ApiError, ApiResult};
use crate::request::{Options, VersionMatch};
use crate::storage::{StoredObject, place_of, store_error};

/// With more objects left than this, a page does not say how many: counting them takes reading
/// them.
const COUNTED_AT_MOST: u64 = 5_000;
const COUNTED_AT_A_TIME: usize = 500;
/// About how many bytes of a list are written at a time.
const PIECE: usize = 64 << 10;

impl Api {
    pub(crate) async fn list(
        &self,
        scope: &Scope,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        if wanted.form == Form::Metadata {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                scope.go_type()
            )));
        }
        let listing = self.select(scope, options).await?;
        let metadata = listing.metadata();
        if wanted.form == Form::Object && !scope.converts() {
            return Ok(wanted.json_pieces(StatusCode::OK, listing.json(scope, &metadata)));
        }
        let objects: Vec<Value> = listing.items.iter().map(|stored| scope.read(stored)).collect();
        let answer = match wanted.form {
            Form::Object => json!({
                "kind": scope.kind.list_kind,
                "apiVersion": scope.api_version(),
                "metadata": metadata,
                "items": objects,
            }),
            Form::Metadata | Form::MetadataList => json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": wanted.meta_version(),
                "metadata": metadata,
                "items": objects.iter().map(|it| wanted.metadata_only(it)).collect::<Vec<_>>(),
            }),
            Form::Table => {
                let include = options.include_object.as_deref();
                let tables = Tables::new(&scope.kind, wanted, include, self.now().as_second());
                tables.table(&metadata, &objects, true)
            }
        };
        Ok(wanted.value(StatusCode::OK, &answer))
    }

    /// Reads the objects that the options select: one page of them, or all.
    pub(crate) async fn select(&self, scope: &Scope, options: &Options) -> ApiResult<Listing> {
        scope.check_fields(&options.fields)?;
        let mut range = Range { prefix: scope.place().prefix(), ..Range::default() };
        let mut remaining = options.limit;
        let mut counted = None;
        if let Some(token) = &options.continue_token {
            if options.version.is_some_and(|version| version > 0) {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Token::parse(token)?;
            range.after = Some(token.after(&range.prefix));
            range.at = token.revision();
            counted = token.remaining;
        } else if let Some(version) = options.version.filter(|version| *version > 0) {
            let exact = options.version_match == Some(VersionMatch::Exact)
                || (options.version_match.is_none() && options.limit.is_some());
            self.check_not_too_new(options.version).await?;
            if exact {
                range.at = Some(Revision(version));
            }
        }

        // Selectors may leave little of a page, so pages are read until the answer is full.
        let filtered = !options.labels.is_empty() || !options.fields.is_empty();
        let mut listing = Listing::default();
        loop {
            range.limit = remaining;
            let page: Page =
                self.store.range(range.clone()).await.map_err(|error| store_error(&error))?;
            listing.revision = page.revision;
            range.at = Some(page.revision);
            range.after = page.entries.last().map(|entry| entry.key.clone()).or(range.after);
            for entry in page.entries {
                let key = entry.key.clone();
                let stored = StoredObject::new(entry);
                if !filtered || scope.selects(&key, &stored, options) {
                    listing.items.push(stored);
                }
            }
            remaining = options.limit.map(|limit| limit - listing.items.len().min(limit));
            if !page.more {
                return Ok(listing);
            }
            if remaining == Some(0) {
                let shown = listing.items.len() as u64;
                let left = match counted {
                    _ if filtered => None,
                    Some(counted) => Some(counted.saturating_sub(shown)),
                    None => self.count(range.clone()).await?,
                };
                let after = range.after.unwrap_or_default();
                listing.next = Some(Token::new(listing.revision, &range.prefix, &after, left));
                return Ok(listing);
            }
        }
    }

    /// How many objects a range has; `None` if they are too many to be counted for one answer. They
    /// are counted once for all pages, since all pages are of one revision.
    async fn count(&self, range: Range) -> ApiResult<Option<u64>> {
        let mut range = Range { limit: Some(COUNTED_AT_A_TIME), ..range };
        let mut count = 0;
        loop {
            let page: Page =
                self.store.range(range.clone()).await.map_err(|error| store_error(&error))?;
            count += page.entries.len() as u64;
            if !page.more {
                return Ok(Some(count));
            }
            if count >= COUNTED_AT_MOST {
                return Ok(None);
            }
            range.after = page.entries.last().map(|entry| entry.key.clone()).or(range.after);
        }
    }
}

/// Objects that were selected.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) revision: Revision,
    pub(crate) items: Vec<StoredObject>,
    /// Where the next page starts, if there is one.
    next: Option<Token>,
}

impl Listing {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.next {
            metadata["continue"] = token.text().into();
            if let Some(remaining) = token.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        metadata
    }

    /// The list as JSON, without reading the objects, and in pieces, so that a long list is not
    /// in memory twice.
    fn json(self, scope: &Scope, metadata: &Value) -> impl Iterator<Item = Vec<u8>> + use<> {
        let (kind, api_version) = (scope.kind.clone(), scope.api_version());
        let head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[",
            kind.list_kind
        );
        let mut next_piece = Some(head.into_bytes());
        let mut items = self.items.into_iter().enumerate();
        std::iter::from_fn(move || {
            let mut piece = next_piece.take()?;
            let type_of = kind.custom.then_some((api_version.as_str(), kind.kind.as_str()));
            while piece.len() < PIECE {
                let Some((n, stored)) = items.next() else {
                    piece.extend_from_slice(b"]}");
                    return Some(piece);
                };
                if n > 0 {
                    piece.push(b',');
                }
                stored.write_json(&mut piece, type_of);
            }
            next_piece = Some(Vec::with_capacity(2 * PIECE));
            Some(piece)
        })
    }
}

impl Scope {
    /// Whether selectors let an object through.
    pub(crate) fn selects(&self, key: &[u8], stored: &StoredObject, options: &Options) -> bool {
        if !stored.has_labels(&options.labels) {
            return false;
        }
        if options.fields.is_empty() {
            return true;
        }
        let Some((namespace, name)) = place_of(&self.kind, key) else { return false };
        let by_key = |field: &str| match field {
            "metadata.name" => Some(name.to_owned()),
            "metadata.namespace" => Some(namespace.unwrap_or_default().to_owned()),
            _ => None,
        };
        let requirements = options.fields.requirements();
        if requirements.iter().all(|requirement| by_key(&requirement.field).is_some()) {
            return options.fields.matches(by_key);
        }
        let object = self.read(stored);
        options.fields.matches(|field| {
            by_key(field).or_else(|| {
                let mut selectable = self.kind.rules.selectable.iter();
                match selectable.find(|(name, _)| *name == field) {
                    Some((_, get)) => Some(get(&object)),
                    None => field_text(&object, field),
                }
            })
        })
    }
}

/// A field of a custom resource as selectors compare it.
fn field_text(object: &Value, field: &str) -> Option<String> {
    jsonpath::first(object, &format!(".{field}")).map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    })
}
