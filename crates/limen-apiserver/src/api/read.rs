//! Getting one object, and listing many.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Response, StatusCode};
use limen_store::{Page, Range, Revision};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Api, Scope};
use crate::answer::{Body, Form, Tables, Wanted, jsonpath, metadata_only};
use crate::error::{ApiError, ApiResult};
use crate::request::{Options, VersionMatch};
use crate::storage::{StoredObject, place_of, store_error};

impl Api {
    /// The stored object of a name, if it is there.
    pub(crate) async fn find(&self, scope: &Scope, name: &str) -> ApiResult<Option<StoredObject>> {
        let entry = self.store.get(&scope.place().key(name), None).await;
        Ok(entry.map_err(|error| store_error(&error))?.map(StoredObject::new))
    }

    pub(crate) async fn get(
        &self,
        scope: &Scope,
        name: &str,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
        self.check_not_too_new(options.version).await?;
        let found = self.find(scope, name).await?;
        let stored = found.ok_or_else(|| ApiError::not_found(scope.subject(), name))?;
        Ok(self.show(scope, &stored, StatusCode::OK, options, wanted))
    }

    /// Answers with one stored object in the form that the client wants.
    pub(crate) fn show(
        &self,
        scope: &Scope,
        stored: &StoredObject,
        code: StatusCode,
        options: &Options,
        wanted: Wanted,
    ) -> Response<Body> {
        if wanted.form == Form::Object && !scope.converts() {
            let mut json = Vec::with_capacity(1024);
            stored.write_json(&mut json, Some((&scope.api_version(), &scope.kind.kind)));
            return wanted.json(code, json);
        }
        self.show_value(scope, &scope.read(stored), code, options, wanted)
    }

    /// Answers with one object in the form that the client wants.
    pub(crate) fn show_value(
        &self,
        scope: &Scope,
        object: &Value,
        code: StatusCode,
        options: &Options,
        wanted: Wanted,
    ) -> Response<Body> {
        match wanted.form {
            Form::Object => wanted.value(code, object),
            Form::Metadata => wanted.value(code, &metadata_only(object)),
            Form::Table => {
                let include = options.include_object.as_deref();
                let tables = Tables::new(&scope.kind, include, self.now().as_second());
                let metadata =
                    json!({"resourceVersion": object["metadata"]["resourceVersion"].clone()});
                wanted.value(code, &tables.table(&metadata, std::slice::from_ref(object), true))
            }
        }
    }

    /// Refuses a revision that has not come about yet, in the words of Kubernetes.
    pub(crate) async fn check_not_too_new(&self, version: Option<u64>) -> ApiResult<()> {
        let Some(wanted) = version.filter(|version| *version > 0) else { return Ok(()) };
        let newest = self.store.revision().await.map_err(|error| store_error(&error))?;
        if wanted <= newest.0 {
            return Ok(());
        }
        let message = format!("Too large resource version: {wanted}, current: {newest}");
        let mut error = ApiError::timeout(format!("Timeout: {message}"));
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error.retry_after = Some(1);
        Err(error)
    }

    pub(crate) async fn list(
        &self,
        scope: &Scope,
        options: &Options,
        wanted: Wanted,
    ) -> ApiResult<Response<Body>> {
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
            Form::Metadata => json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": objects.iter().map(metadata_only).collect::<Vec<_>>(),
            }),
            Form::Table => {
                let include = options.include_object.as_deref();
                let tables = Tables::new(&scope.kind, include, self.now().as_second());
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
        if let Some(token) = &options.continue_token {
            if options.version.is_some_and(|version| version > 0) {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Token::parse(token)?;
            range.after = Some(token.start.into());
            range.at = Some(Revision(token.rv));
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
                let key = filtered.then(|| entry.key.clone());
                let stored = StoredObject::new(entry);
                if key.is_none_or(|key| scope.selects(&key, &stored, options)) {
                    listing.items.push(stored);
                }
            }
            remaining = options.limit.map(|limit| limit - listing.items.len().min(limit));
            if !page.more {
                return Ok(listing);
            }
            if remaining == Some(0) {
                listing.next = range.after;
                return Ok(listing);
            }
        }
    }
}

/// Objects that were selected.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) revision: Revision,
    pub(crate) items: Vec<StoredObject>,
    /// The last key of this page, if there are more.
    next: Option<Bytes>,
}

impl Listing {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(key) = &self.next {
            let start = String::from_utf8_lossy(key).into_owned();
            let token = Token { v: Token::FORMAT.to_owned(), rv: self.revision.0, start };
            metadata["continue"] = token.text().into();
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

/// About how many bytes of a list are written at a time.
const PIECE: usize = 64 << 10;

/// Where the next page of a listing starts.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: u64,
    start: String,
}

impl Token {
    const FORMAT: &str = "meta.k8s.io/v1";

    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> ApiResult<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let token: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        token.filter(|token| token.v == Self::FORMAT).ok_or_else(|| {
            ApiError::bad_request("continue key is not valid: encoded start key is not valid")
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
