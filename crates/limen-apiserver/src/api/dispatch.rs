//! From a request to the code that answers it.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use serde_json::Value;

use super::trace::Trace;
use super::upload::Upload;
use super::{Api, Caller, Deletion, Scope, Writing};
use crate::answer::{self, Body, Encoding, Form, Offer, Tables, Wanted};
use crate::apply::manager_name;
use crate::auth::Identity;
use crate::decode::{self, Expected, FieldValidation, Media, PatchMedia};
use crate::discovery;
use crate::error::{ApiError, ApiResult, Subject};
use crate::field_error::{FieldError, FieldPath};
use crate::flow::Class;
use crate::kinds::metadata::name_reasons;
use crate::rbac::Attributes;
use crate::registry::Types;
use crate::request::{Options, ResourcePath, Target, Verb};
use crate::resource::{NameRule, ResourceType};

/// The media types of bodies that are read.
const READABLE: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// A request that has been understood, of somebody who may make it.
pub(super) struct Asked {
    pub(super) verb: Verb,
    pub(super) path: ResourcePath,
    pub(super) options: Options,
    pub(super) wanted: Wanted,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) identity: Arc<Identity>,
}

impl Asked {
    /// Settles in which form to answer, and refuses options that make no sense.
    fn check(&mut self) -> ApiResult<()> {
        self.wanted = Wanted::from_headers(&self.headers, offer_of(self.verb))?;
        self.options.check(self.verb)
    }

    /// Who is to own the fields that this request changes.
    pub(super) fn manager(&self) -> ApiResult<String> {
        if let Some(name) = &self.options.field_manager {
            let errors = manager_name::validate(name);
            let kind = self.verb.options_kind();
            let subject = Subject { group: "meta.k8s.io", resource: kind };
            return if errors.is_empty() {
                Ok(name.clone())
            } else {
                Err(ApiError::invalid(subject, "", &errors))
            };
        }
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Ok(manager_name::from_user_agent(agent.unwrap_or_default()))
    }

    pub(super) fn media(&self) -> ApiResult<Media> {
        let given = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default();
        match given.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Ok(Media::Json),
            "application/yaml" => Ok(Media::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Media::Protobuf),
            _ => Err(ApiError::unsupported_media_type(&READABLE)),
        }
    }
}

/// An answer or a refusal, and what to warn the client of in either case.
pub(super) struct Answer {
    pub(super) outcome: ApiResult<Response<Body>>,
    pub(super) warnings: Vec<String>,
}

impl From<ApiResult<Response<Body>>> for Answer {
    fn from(outcome: ApiResult<Response<Body>>) -> Self {
        Self { outcome, warnings: Vec::new() }
    }
}

impl From<Response<Body>> for Answer {
    fn from(response: Response<Body>) -> Self {
        Ok(response).into()
    }
}

impl Api {
    /// Answers a request.
    pub async fn call<B>(self: Arc<Self>, caller: Caller, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let (head, version) = (parts.method == Method::HEAD, parts.version);
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let yaml = accept.is_some_and(|accept| accept.trim_start().starts_with("application/yaml"));
        let encoding = if yaml { Encoding::Yaml } else { Encoding::Json };
        let mut trace = Trace::new(&parts, caller.address, self.now());
        let api = self.clone();
        let mut upload = Upload::Unread(body);
        let answered = self.answer(caller, parts, &mut upload, &mut trace).await;
        let Answer { outcome, warnings } = answered.unwrap_or_else(|error| Err(error).into());
        let failure = outcome.as_ref().err().map(|error| error.reason);
        let mut response = outcome.unwrap_or_else(|error| answer::error(&error, encoding));
        warn(&mut response, &warnings);
        let headers = response.headers_mut();
        headers
            .entry(CACHE_CONTROL)
            .or_insert_with(|| HeaderValue::from_static("no-cache, private"));
        if let Ok(id) = HeaderValue::from_str(&trace.id) {
            headers.insert("audit-id", id);
        }
        if head {
            *response.body_mut() = answer::empty();
        }
        if let Some(log) = &api.audit {
            trace.record(log, response.status().as_u16(), failure, api.now());
        }
        api.metrics.answered(trace.verb(), response.status().as_u16());
        if !upload.discard().await && version == Version::HTTP_11 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn answer<B>(
        self: Arc<Self>,
        caller: Caller,
        parts: Parts,
        upload: &mut Upload<B>,
        trace: &mut Trace,
    ) -> ApiResult<Answer>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let known = self.identify(&caller, &parts.headers).await?;
        let target = Target::parse(parts.uri.path())?;
        let options = Options::parse(parts.uri.query().unwrap_or_default());
        let path = match target {
            Target::Other(path) => {
                let verb = path_verb(&parts.method);
                let wanted = Attributes::path(&known.identity, verb, &path);
                let known = self.impersonate(known.clone(), &parts.headers, &wanted)?;
                let wanted = Attributes { user: &known.identity, ..wanted };
                trace.know(&known, &wanted);
                trace.decide(self.allow(&wanted))?;
                let _turn = self.flow.enter(&known.identity, class_of(&path)).await?;
                if let Some(response) = self.unready(&path).await {
                    return Ok(response.into());
                }
                return Ok(self.answer_path(&parts.method, &path, &parts.headers).into());
            }
            Target::Resource(path) => path,
        };

        // Who may not do a thing is not told whether it was asked for properly.
        let verb = Verb::of(&parts.method, &path, &options).map_err(|error| {
            // A review is no object that a method could be tried on.
            let is_review = |review: &discovery::Review| {
                review.group == path.group && review.plural == path.plural
            };
            let named = path.name.is_some();
            let review = named && discovery::reviews().iter().any(is_review);
            if review { ApiError::no_such_path() } else { error }
        })?;
        let mut wanted = path.attributes(&known.identity, verb);
        // Reading what has one name is asking for that one; the old paths of watches have no
        // selectors.
        if let Some(name) = options.fields.name()
            && matches!(verb, Verb::List | Verb::Watch)
            && wanted.name.is_empty()
            && !path.watch
            && name_reasons(NameRule::PathSegment, name).is_empty()
        {
            wanted.name = name;
        }
        let known = self.impersonate(known.clone(), &parts.headers, &wanted)?;
        let wanted = Attributes { user: &known.identity, ..wanted };
        trace.know(&known, &wanted);
        trace.decide(self.allow(&wanted))?;
        let user = known.identity.clone();
        let (_room, body, class) = if verb.is_mutating() {
            let room = self.flow.room(&user, upload.most())?;
            (room, upload.read().await?, Class::Mutating)
        } else {
            (None, Bytes::new(), Class::ReadOnly)
        };
        let _turn = self.flow.enter(&user, class).await?;
        let asked = Asked {
            verb,
            path,
            options,
            wanted: Wanted::default(),
            headers: parts.headers,
            body,
            identity: known.identity,
        };
        let carried_out = match parts.method {
            // The real server has no HEAD for objects.
            Method::HEAD => Err(ApiError::method_not_allowed()),
            _ => self.clone().carry_out(asked).await,
        };
        let mut answer = carried_out.unwrap_or_else(|error| Err(error).into());
        answer.warnings.extend(known.warning.map(str::to_owned));
        Ok(answer)
    }

    async fn carry_out(self: Arc<Self>, mut asked: Asked) -> ApiResult<Answer> {
        if let Some(review) = self.review_of(&asked) {
            asked.check()?;
            return self.on_review(&asked, review).await;
        }
        let types = self.registry.types();
        let path = &asked.path;
        let kind = types
            .find(&path.group, &path.version, &path.plural)
            .ok_or_else(|| self.nothing_in(&path.group))?
            .clone();
        let scope = Scope::new(&kind, path.namespace.as_deref());
        let misplaced = path.namespace.is_some() != kind.namespaced
            && (path.namespace.is_some() || path.name.is_some());
        if misplaced {
            return Err(ApiError::no_such_path());
        }
        // What does not exist cannot be asked for wrongly.
        asked.check()?;
        let path = &asked.path;
        if let Some(name) = &path.name {
            check_name(name)?;
        }
        if asked.wanted.form == Form::Table {
            Tables::check_include(asked.options.include_object.as_deref())?;
        }
        let is = |name: &str| kind.group.is_empty() && kind.kind == name;
        let deprecation = scope.deprecation();
        let mut answer = match path.subresource.clone().as_deref() {
            None => self.on_object(asked, scope).await?,
            Some("status") if kind.has_status => self.on_object(asked, scope).await?,
            Some("finalize") if is("Namespace") => self.on_object(asked, scope).await?,
            Some("scale") if kind.scale.is_some() => self.on_scale(asked, scope).await?,
            Some("token") if is("ServiceAccount") => self.on_token(asked, scope).await?,
            Some(_) => return Err(ApiError::no_such_path()),
        };
        if let Some(warning) = deprecation
            && !answer.warnings.contains(&warning)
        {
            answer.warnings.insert(0, warning);
        }
        Ok(answer)
    }

    async fn on_object(self: Arc<Self>, asked: Asked, scope: Scope) -> ApiResult<Answer> {
        let verb = asked.verb;
        // A subresource is a part of its object: it is neither made nor deleted by itself.
        let part = asked.path.subresource.is_some();
        if part && !matches!(verb, Verb::Get | Verb::Update | Verb::Patch) {
            return Err(ApiError::method_not_allowed());
        }
        let answered = self.on_verb(asked, scope).await;
        Ok(answered.unwrap_or_else(|error| Err(error).into()))
    }

    async fn on_verb(self: Arc<Self>, asked: Asked, scope: Scope) -> ApiResult<Answer> {
        let Asked { verb, options, wanted, .. } = &asked;
        let (options, wanted) = (options.clone(), *wanted);
        let name = asked.path.name.clone().unwrap_or_default();
        Ok(match verb {
            Verb::Get => self.get(&scope, &name, &options, wanted).await?.into(),
            Verb::List => self.list(&scope, &options, wanted).await?.into(),
            Verb::Watch => {
                let options = if name.is_empty() { options } else { options.only(&name) };
                self.watch(scope, options, wanted).await?.into()
            }
            Verb::Create => self.on_create(&asked, &scope).await?,
            Verb::Update => self.on_update(&asked, &scope, &name).await?,
            Verb::Patch => self.on_patch(&asked, &scope, &name).await?,
            Verb::Delete => {
                let deletion = Deletion::new(&options, &asked.delete_options()?)?;
                let outcome = self.delete(&scope, &name, &deletion, &options, wanted).await;
                self.deleted(&scope).await;
                outcome?.into()
            }
            Verb::DeleteCollection => {
                let everywhere = scope.kind.namespaced && scope.namespace.is_none();
                if scope.kind.kind == "Namespace" || everywhere {
                    return Err(ApiError::method_not_allowed());
                }
                let deletion = Deletion::new(&options, &asked.delete_options()?)?;
                let outcome = self.delete_collection(&scope, &deletion, &options, wanted).await;
                self.deleted(&scope).await;
                outcome?.into()
            }
        })
    }

    /// What is said of a path that leads to no type. A group that is built in knows its paths;
    /// beyond those there might be anything.
    pub(super) fn nothing_in(&self, group: &str) -> ApiError {
        let known = self.registry.types().has_built_in(group)
            || discovery::reviews().iter().any(|review| review.group == group);
        if known { ApiError::no_such_path() } else { ApiError::page_not_found() }
    }

    pub(super) fn writing<'a>(
        &self,
        types: &'a Types,
        asked: &'a Asked,
        manager: &'a str,
    ) -> Writing<'a> {
        let subresource = asked.path.subresource.as_deref().unwrap_or_default();
        Writing { types, manager, subresource, now: self.now() }
    }

    /// What the server itself goes by is learned before the writer is answered. If that fails, the
    /// write was made all the same, and is learned of later.
    pub(super) async fn written(&self, scope: &Scope) {
        let learned = match scope.kind.group.as_str() {
            "rbac.authorization.k8s.io" => self.learn_access().await,
            "apiextensions.k8s.io" => self.learn_custom_resources().await,
            _ => return,
        };
        if let Err(error) = learned {
            let group = &scope.kind.group;
            tracing::warn!(%error, %group, "what was written could not be learned; it will be");
        }
    }

    /// What the server itself goes by is forgotten before the deleter is answered. Definitions go
    /// later, once their objects are gone.
    async fn deleted(&self, scope: &Scope) {
        if scope.kind.group == "rbac.authorization.k8s.io" {
            self.written(scope).await;
        }
    }
}

/// Refuses a name that could not be a part of a path.
fn check_name(name: &str) -> ApiResult<()> {
    let reasons = name_reasons(NameRule::PathSegment, name);
    if reasons.is_empty() {
        return Ok(());
    }
    let reasons = reasons.join(";");
    Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: {reasons}")))
}

fn offer_of(verb: Verb) -> Offer {
    match verb {
        Verb::List => Offer::List,
        Verb::Watch => Offer::Watch,
        _ => Offer::One,
    }
}

fn class_of(path: &str) -> Class {
    let health = ["/healthz", "/livez", "/readyz"];
    if health.iter().any(|prefix| path.starts_with(prefix)) {
        Class::Health
    } else {
        Class::ReadOnly
    }
}

fn path_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "options",
    }
}

impl Asked {
    pub(super) fn validation(&self) -> ApiResult<FieldValidation> {
        let given = self.options.field_validation.as_deref().unwrap_or_default();
        FieldValidation::parse(given).ok_or_else(|| {
            let path = FieldPath::new("fieldValidation");
            let supported = ["", "Ignore", "Strict", "Warn"];
            let error = FieldError::not_supported(&path, &given.into(), &supported);
            let subject = Subject { group: "meta.k8s.io", resource: self.verb.options_kind() };
            ApiError::invalid(subject, "", &[error])
        })
    }

    /// The object in the body, and what to warn of.
    pub(super) fn object(&self, kind: &ResourceType) -> ApiResult<(Value, Vec<String>)> {
        let decoded = decode::decode(&self.body, self.media()?, kind.into(), self.validation()?)?;
        Ok((decoded.object, decoded.warnings))
    }

    /// An object in the body that is not of a stored type.
    pub(super) fn typed_value(&self, group: &str, kind: &str) -> ApiResult<Value> {
        let expected = Expected { group, version: "v1", kind, custom: None };
        Ok(decode::decode(&self.body, self.media()?, expected, self.validation()?)?.object)
    }

    /// The configuration in the body, and what to warn of.
    pub(super) fn applied(&self) -> ApiResult<(Value, Vec<String>)> {
        let patch = decode::parse_patch(&self.body, PatchMedia::Apply)?;
        let problems = patch.strict_errors;
        match self.validation()? {
            FieldValidation::Ignore => Ok((patch.value, Vec::new())),
            FieldValidation::Strict if !problems.is_empty() => Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                problems.join("\n  ")
            ))),
            _ => Ok((patch.value, problems)),
        }
    }

    /// The delete options in the body, if there are any.
    fn delete_options(&self) -> ApiResult<Value> {
        decode::decode_options(&self.body, self.media()?, "DeleteOptions")
    }
}

fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
}
