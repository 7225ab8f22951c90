//! CronJob: jobs at set times.

use serde_json::{Value, json};

use super::age::{age, since};
use super::cron;
use super::fields::{at, fill, fill_object, flag, is_empty, is_set, list, text};
use super::job;
use super::labels;
use super::table::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR, column, containers, integer};
use super::workload::check_counts;
use crate::field_error::{FieldError, FieldPath};
use crate::resource::{Column, NameRule, Rules};

pub(super) const RULES: Rules = Rules {
    name: NameRule::Subdomain,
    default,
    prepare_create: |object| fill_object(object, "status"),
    validate,
    ..Rules::NONE
};

fn default(object: &mut Value) {
    fill(object, "spec.concurrencyPolicy", "Allow");
    fill(object, "spec.suspend", false);
    fill(object, "spec.successfulJobsHistoryLimit", 3);
    fill(object, "spec.failedJobsHistoryLimit", 1);
    fill_object(object, "spec.jobTemplate.metadata");
    default_job(object);
}

/// Most of a job's defaults wait until there is a job.
fn default_job(object: &mut Value) {
    super::pod::default_template(object, "spec.jobTemplate.spec.template");
}

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = at(object, "spec");
    let field = FieldPath::new("spec");
    validate_schedule(spec, &field, errors);
    check_counts(errors, spec, &["startingDeadlineSeconds"]);
    let policies = ["Allow", "Forbid", "Replace"];
    let policy = text(spec, "concurrencyPolicy");
    if !policies.contains(&policy) {
        let field = field.child("concurrencyPolicy");
        errors.push(FieldError::not_supported(&field, &json!(policy), &policies));
    }
    let template = field.child("jobTemplate").child("spec");
    let mut job_spec = json!({"spec": at(spec, "jobTemplate.spec")});
    job::default_spec(&mut job_spec, "spec");
    job::check_spec(errors, &template, &job_spec["spec"]);
    let selector = at(spec, "jobTemplate.spec.selector");
    if !selector.is_null() {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(&template.child("selector"), selector, detail));
    }
    if flag(spec, "jobTemplate.spec.manualSelector") {
        let field = template.child("manualSelector");
        errors.push(FieldError::not_supported(&field, &json!(true), &["nil", "false"]));
    }
    check_counts(errors, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
    let name = text(object, "metadata.name");
    // Jobs add eleven characters to the name, and pods need it as a label.
    if name.len() > 52 {
        let field = FieldPath::new("metadata").child("name");
        let detail = "must be no more than 52 characters";
        errors.push(FieldError::invalid(&field, &json!(name), detail));
    }
}

fn validate_schedule(spec: &Value, field: &FieldPath, errors: &mut Vec<FieldError>) {
    let schedule = text(spec, "schedule");
    let schedule_field = field.child("schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required(&schedule_field, ""));
    } else {
        if let Err(detail) = cron::check(schedule) {
            errors.push(FieldError::invalid(&schedule_field, &json!(schedule), &detail));
        }
        if schedule.contains("TZ") {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid(&schedule_field, &json!(schedule), detail));
        }
    }
    if is_set(spec, "timeZone") {
        let zone = text(spec, "timeZone");
        let detail = if zone.is_empty() {
            "timeZone must be nil or non-empty string".to_owned()
        } else if zone.eq_ignore_ascii_case("local") {
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                .to_owned()
        } else if jiff::tz::TimeZone::get(zone).is_err() {
            format!("unknown time zone {zone}")
        } else {
            return;
        };
        errors.push(FieldError::invalid(&field.child("timeZone"), &json!(zone), &detail));
    }
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Schedule", "When jobs are due."),
    column("Timezone", "The time zone of the schedule."),
    Column {
        name: "Suspend",
        kind: "boolean",
        format: "",
        description: "Whether no more jobs are to start.",
        priority: 0,
    },
    integer("Active", "How many jobs run."),
    column("Last Schedule", "How long ago a job was last due."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let last = if is_empty(object, "status.lastScheduleTime") {
        "<none>".to_owned()
    } else {
        since(object, "status.lastScheduleTime", now)
    };
    let suspend = if flag(object, "spec.suspend") { "True" } else { "False" };
    let (names, images) = containers(object, "spec.jobTemplate.spec.template.spec.containers");
    vec![
        table::name(object),
        text(object, "spec.schedule").into(),
        at(object, "spec.timeZone").as_str().unwrap_or("<none>").into(),
        suspend.into(),
        list(object, "status.active").len().into(),
        last.into(),
        age(object, now),
        names.into(),
        images.into(),
        labels::shown_or_none(at(object, "spec.jobTemplate.spec.selector")).into(),
    ]
}
