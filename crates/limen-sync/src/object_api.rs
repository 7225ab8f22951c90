//! Requests about objects of any kind, as plain JSON.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use limen_core::federated::{Kind, ObjectId};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::applied::Applied;
use crate::fence::Fence;
use crate::member_error::NotLeading;
use crate::slim_object::SlimObject;

/// What a path segment or a query value must not hold as it is.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'/')
    .add(b'=')
    .add(b'?');

/// The type of what is applied.
const APPLY: &str = "application/apply-patch+yaml";

/// The name that Limen signs the fields it applies with.
pub(crate) const FIELD_MANAGER: &str = "limen";

/// A version that no object will ever have: versions are counted from the first write on.
const NEVER: &str = "9223372036854775807";

/// How long a request may go unanswered.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many objects of a list come at a time.
const PAGE: usize = 1000;

/// Requests about objects of any kind. Each is answered in time or fails.
#[derive(Clone)]
pub struct ObjectApi {
    client: Client,
    patience: Duration,
    /// Wakes those who wait before they try again.
    answers: Arc<Notify>,
    fence: Fence,
}

/// The version of an object that a write was decided on: a newer one is never written over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The uid of the object.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
}

/// The path of all that a version of a group has.
pub(crate) fn version_path(kind: &Kind) -> String {
    match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    }
}

/// The path of all objects of a kind, in one namespace or in all.
pub(crate) fn kind_path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = version_path(kind);
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", kind.plural),
        None => format!("{root}/{}", kind.plural),
    }
}

/// The path of one object.
pub fn object_path(id: &ObjectId) -> String {
    let name = utf8_percent_encode(&id.name, ESCAPED);
    format!("{}/{name}", kind_path(&id.kind, id.namespace.as_deref()))
}

pub(crate) fn escape(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, ESCAPED)
}

impl ObjectApi {
    /// Requests through a client.
    pub fn new(client: Client) -> Self {
        Self { client, patience: PATIENCE, answers: Arc::default(), fence: Fence::open() }
    }

    /// The same, with writes that are sent only while the fence allows them.
    #[must_use]
    pub fn with_fence(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// The same, with another limit to how long a request may go unanswered.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The cluster is known to answer: whoever waits before trying again may try now.
    pub(crate) fn say_it_answers(&self) {
        self.answers.notify_waiters();
    }

    /// Waits before another try: so long, or until the cluster is known to answer.
    pub(crate) async fn wait_for_answers(&self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.answers.notified()).await;
    }

    /// The client that requests go through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The object, if it is there.
    pub async fn get(&self, id: &ObjectId) -> kube::Result<Option<Value>> {
        absent_is_none(self.send(Method::GET, &object_path(id), None, None).await)
    }

    /// Makes an object hold what is given, by server-side apply; others keep their fields.
    pub async fn apply(&self, id: &ObjectId, object: &Value) -> kube::Result<Value> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", object_path(id));
        self.send(Method::PATCH, &path, Some(APPLY), Some(object)).await
    }

    /// As [`ObjectApi::apply`], but only if there is no such object: `None` if there is one.
    ///
    /// A version that no object has is as good as none where there is nothing to compare it with,
    /// and a conflict where there is.
    pub async fn apply_new(&self, id: &ObjectId, object: &Value) -> kube::Result<Option<Value>> {
        self.apply_new_with(id, object, &[]).await
    }

    /// As [`ObjectApi::apply_new`], with annotations that the object does not have by itself.
    pub(crate) async fn apply_new_with(
        &self,
        id: &ObjectId,
        object: &Value,
        annotations: &[(&str, String)],
    ) -> kube::Result<Option<Value>> {
        let body = Applied { object, uid: None, resource_version: NEVER, annotations };
        match self.send_applied(id, &body).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`ObjectApi::apply`], but only over this version of the object: a conflict (409) if it
    /// has changed or is gone.
    pub(crate) async fn apply_over(
        &self,
        id: &ObjectId,
        object: &Value,
        over: &Precondition,
        annotations: &[(&str, String)],
    ) -> kube::Result<Value> {
        let Precondition { uid, resource_version } = over;
        let body = Applied { object, uid: Some(uid), resource_version, annotations };
        self.send_applied(id, &body).await
    }

    async fn send_applied(&self, id: &ObjectId, body: &Applied<'_>) -> kube::Result<Value> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", object_path(id));
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = request_with(Method::PATCH, &path, Some(APPLY), body)?;
        let answer: SlimObject = self.exchange(request).await?;
        Ok(answer.0)
    }

    /// The object with its `managedFields`, if it is there.
    pub(crate) async fn get_managed(&self, id: &ObjectId) -> kube::Result<Option<Value>> {
        let request = request(Method::GET, &object_path(id), None, None)?;
        absent_is_none(self.exchange::<Value>(request).await)
    }

    /// What an object would look like after [`ObjectApi::apply`].
    pub async fn dry_run(&self, id: &ObjectId, object: &Value) -> kube::Result<Value> {
        let path =
            format!("{}?fieldManager={FIELD_MANAGER}&force=true&dryRun=All", object_path(id));
        self.send(Method::PATCH, &path, Some(APPLY), Some(object)).await
    }

    /// Changes some fields of an object, or of its status, by merge patch.
    pub async fn merge(&self, id: &ObjectId, part: &str, patch: &Value) -> kube::Result<Value> {
        let path = format!("{}{part}?fieldManager={FIELD_MANAGER}", object_path(id));
        self.send(Method::PATCH, &path, Some("application/merge-patch+json"), Some(patch)).await
    }

    /// Creates an object.
    pub async fn create(&self, kind: &Kind, object: &Value) -> kube::Result<Value> {
        let namespace = object["metadata"]["namespace"].as_str();
        let path = format!("{}?fieldManager={FIELD_MANAGER}", kind_path(kind, namespace));
        self.send(Method::POST, &path, Some("application/json"), Some(object)).await
    }

    /// As [`ObjectApi::create`], for whoever does not want to know what the API made of it.
    pub async fn submit(&self, kind: &Kind, object: &Value) -> kube::Result<()> {
        let namespace = object["metadata"]["namespace"].as_str();
        let path = format!("{}?fieldManager={FIELD_MANAGER}", kind_path(kind, namespace));
        let request = request(Method::POST, &path, Some("application/json"), Some(object))?;
        self.exchange::<Unread>(request).await.map(drop)
    }

    /// Deletes the object with this uid, and no other of the same name.
    pub async fn delete(&self, id: &ObjectId, uid: &str) -> kube::Result<()> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid}, "propagationPolicy": "Background"});
        let path = object_path(id);
        let sent = self.send(Method::DELETE, &path, Some("application/json"), Some(&options)).await;
        absent_is_none(sent).map(drop)
    }

    /// Deletes this version of an object, and no other: a conflict (409) if it has changed.
    pub(crate) async fn delete_version(
        &self,
        id: &ObjectId,
        of: &Precondition,
    ) -> kube::Result<()> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": of.uid, "resourceVersion": of.resource_version},
            "propagationPolicy": "Background"});
        let path = object_path(id);
        let sent = self.send(Method::DELETE, &path, Some("application/json"), Some(&options)).await;
        absent_is_none(sent).map(drop)
    }

    /// Every object of a kind with these labels, and the version of the list.
    pub async fn list(&self, kind: &Kind, selector: &str) -> kube::Result<(Vec<Value>, String)> {
        let mut objects = Vec::new();
        let version = self.each(kind, selector, PAGE, |object| objects.push(object)).await?;
        Ok((objects, version))
    }

    /// As [`ObjectApi::list`], without keeping more than some objects at a time.
    pub async fn each(
        &self,
        kind: &Kind,
        selector: &str,
        page: usize,
        mut take: impl FnMut(Value),
    ) -> kube::Result<String> {
        let mut token = String::new();
        loop {
            let path = format!(
                "{}?limit={page}&labelSelector={}&continue={}",
                kind_path(kind, None),
                escape(selector),
                escape(&token)
            );
            let mut part = self.send(Method::GET, &path, None, None).await?;
            take_items(&mut part, &path)?.into_iter().for_each(&mut take);
            token = part["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                let version = part["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                return Ok(version.to_owned());
            }
        }
    }

    /// The metadata of every object of a kind, without the rest.
    pub async fn list_metadata(&self, kind: &Kind) -> kube::Result<Vec<Value>> {
        let path = kind_path(kind, None);
        take_items(&mut self.metadata_page(&path).await?, &path)
    }

    /// The metadata of every object of a kind in one namespace.
    pub(crate) async fn list_metadata_in(
        &self,
        kind: &Kind,
        namespace: &str,
    ) -> kube::Result<Vec<Value>> {
        let (mut objects, mut token) = (Vec::new(), String::new());
        loop {
            let path = kind_path(kind, Some(namespace));
            let path = format!("{path}?limit={PAGE}&continue={}", escape(&token));
            let mut page = self.metadata_page(&path).await?;
            let items = take_items(&mut page, &path)?;
            objects.extend(items.into_iter().map(|mut item| item["metadata"].take()));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }

    /// One page of a list, with the metadata of its objects only.
    pub(crate) async fn metadata_page(&self, path: &str) -> kube::Result<Value> {
        let mut request = request(Method::GET, path, None, None)?;
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        request.headers_mut().insert("accept", http::HeaderValue::from_static(accept));
        self.exchange(request).await
    }

    /// A GET of any path, as text.
    pub async fn text(&self, path: &str) -> kube::Result<String> {
        let request = request(Method::GET, path, None, None)?;
        self.in_time(self.client.request_text(request)).await
    }

    /// An answer, or that there was none in time.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| {
            let seconds = self.patience.as_secs_f32();
            Err(kube::Error::Service(format!("no answer within {seconds} s").into()))
        })
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Option<&Value>,
    ) -> kube::Result<Value> {
        let request = request(method, path, content_type, body)?;
        let answer: SlimObject = self.exchange(request).await?;
        Ok(answer.0)
    }

    /// Sends a request; a write only while the fence allows it.
    async fn exchange<T>(&self, request: Request<Vec<u8>>) -> kube::Result<T>
    where
        T: Clone + serde::de::DeserializeOwned,
    {
        if *request.method() != Method::GET && !self.fence.allows() {
            return Err(kube::Error::Service(Box::new(NotLeading)));
        }
        self.in_time(self.client.request(request)).await
    }
}

/// An object of which nothing is kept.
#[derive(Clone, Deserialize)]
struct Unread {}

pub(crate) fn request(
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: Option<&Value>,
) -> kube::Result<Request<Vec<u8>>> {
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    request_with(method, path, content_type, body)
}

fn request_with(
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: Vec<u8>,
) -> kube::Result<Request<Vec<u8>>> {
    let mut request =
        Request::builder().method(method).uri(path).header("accept", "application/json");
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    request
        .body(body)
        .map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))
}

/// The items of a list. kube-apiserver answers `null` for those of an empty list of metadata.
/// Something else that answers in the place of the API has no lists, not even empty ones.
fn take_items(list: &mut Value, path: &str) -> kube::Result<Vec<Value>> {
    let is_list = list["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
        && list["metadata"]["resourceVersion"].is_string();
    match list.get_mut("items").map(Value::take).unwrap_or_default() {
        Value::Array(items) => Ok(items),
        Value::Null if is_list => Ok(Vec::new()),
        _ => Err(kube::Error::Service(format!("the answer to {path} is no list").into())),
    }
}

/// Whether an API says that an object is absent. A bare "not found" may come from whatever answers
/// in the place of the API.
pub fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound")
}

/// Whether an API says that an object is not as a write expected it.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn absent_is_none(sent: kube::Result<Value>) -> kube::Result<Option<Value>> {
    match sent {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
