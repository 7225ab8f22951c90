//! The report as one page that needs nothing but a browser.

use std::fmt::Write;

use limen_core::simulate::{Outcome, Report, Scenario, Step};

use super::plot::{Series, escape, lines};
use super::{COLUMNS, row};

/// The page's colours; more lines than these share them.
const COLOURS: usize = 8;

/// The report of a scenario.
pub(super) fn page(scenario: &Scenario, report: &Report) -> String {
    let name = escape(&scenario.name);
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>{name}</title><style>{}</style>\n<h1>{name}</h1><p>{}</p>\n",
        include_str!("page.css"),
        escape(&scenario.description)
    );
    table(&mut html, report);
    html.push_str("<h2>What clients want</h2>\n");
    let regions = scenario.clients.iter().enumerate().map(|(index, clients)| Series {
        name: &clients.region,
        colour: index % COLOURS,
        dashed: false,
        values: report.demand.iter().map(|demand| demand[index]).collect(),
    });
    let regions: Vec<_> = regions.collect();
    html.push_str(&lines("Requests by region", "requests/s", &report.hours, &regions));
    html.push_str("<h2>What clusters get</h2>\n");
    for outcome in &report.outcomes {
        html.push_str(&loads(scenario, report, outcome));
    }
    html.push_str("<h2>What comes of it</h2>\n");
    for (title, unit, value) in FIGURES {
        let ways = report.outcomes.iter().enumerate().map(|(index, outcome)| Series {
            name: outcome.name,
            colour: index,
            dashed: false,
            values: outcome.steps.iter().map(value).collect(),
        });
        let ways: Vec<_> = ways.collect();
        html.push_str(&lines(title, unit, &report.hours, &ways));
    }
    if let Some(trial) = &scenario.canary {
        let values = report.canary.iter().map(|percent| f64::from(*percent)).collect();
        let share = Series { name: &trial.group, colour: 0, dashed: false, values };
        html.push_str(&lines("Share of the version on trial", "%", &report.hours, &[share]));
    }
    html.push_str("<p>Gateways decide with the same functions as real ones. DNS servers check health and clients keep their answers for their time to live.</p></html>\n");
    html
}

type Figure = (&'static str, &'static str, fn(&Step) -> f64);

const FIGURES: [Figure; 3] = [
    ("Failed requests", "requests/s", |step| step.failed),
    ("Latency", "ms on average", |step| step.latency),
    ("Added latency: travel beyond the nearest cluster", "ms on average", |step| step.added),
];

fn table(html: &mut String, report: &Report) {
    html.push_str("<div class=wide><table><tr>");
    for (cell, _) in COLUMNS {
        let _ = write!(html, "<th>{}</th>", cell.to_lowercase());
    }
    for outcome in &report.outcomes {
        html.push_str("</tr><tr>");
        for cell in row(outcome) {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
    }
    html.push_str("</tr></table></div>\n");
}

fn loads(scenario: &Scenario, report: &Report, outcome: &Outcome) -> String {
    let mut series = Vec::new();
    for (index, cluster) in scenario.clusters.iter().enumerate() {
        let (name, colour) = (cluster.name.as_str(), index % COLOURS);
        let values = report.capacity.iter().map(|capacity| capacity[index]).collect();
        series.push(Series { name, colour, dashed: true, values });
        let values = outcome.steps.iter().map(|step| step.load[index]).collect();
        series.push(Series { name, colour, dashed: false, values });
    }
    lines(&format!("{}: load by cluster", outcome.name), "requests/s", &report.hours, &series)
}

#[cfg(test)]
mod tests {
    use limen_core::simulate::simulate;

    use super::*;

    #[test]
    fn a_page_asks_for_nothing_and_shows_everything() {
        let example =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/simulate/bad-canary.yaml");
        let text = std::fs::read_to_string(example).unwrap();
        let mut scenario: Scenario = serde_saphyr::from_str(&text).unwrap();
        scenario.clusters[0].name = "<frankfurt>".to_owned();
        for clusters in scenario.latency.values_mut() {
            clusters.remove("frankfurt");
        }
        let scenario = scenario.checked().unwrap();
        let html = page(&scenario, &simulate(&scenario));
        for outside in ["http:", "https:", "//", "<script", "@import", "url(", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
        for part in ["&lt;frankfurt&gt;", "dublin", "prefers-color-scheme: dark", "DNS in turn"] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("NaN") && !html.contains("inf"));
        // Demand, three ways, three figures, the version on trial.
        assert_eq!(html.matches("<svg").count(), 8);
    }
}
