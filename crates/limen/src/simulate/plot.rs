//! Plots as SVG, drawn with the colours of the page they are in.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// Points of one line, at most: a screen shows no more.
const MOST_POINTS: usize = 720;

/// One line of a plot.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// Which of the page's colours it has.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) values: Vec<f64>,
}

/// A plot of lines over hours, with a legend.
pub(super) fn lines(title: &str, unit: &str, hours: &[f64], series: &[Series<'_>]) -> String {
    let most = series.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max);
    let (step, most) = scale(most);
    let last = hours.last().copied().unwrap_or(1.0).max(1e-9);
    let x = |hour: f64| LEFT + hour / last * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<figure><figcaption>{} <small>{}</small></figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(unit),
        escape(title)
    );
    let mut value = 0.0;
    while value <= most * 1.0001 {
        let at = y(value);
        let _ = write!(
            svg,
            "<line class=grid x1={LEFT} x2={} y1={at:.1} y2={at:.1} /><text class=end x={} y={:.1}>{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            number(value)
        );
        value += step;
    }
    let apart = [0.5, 1.0, 2.0, 3.0, 6.0, 24.0].into_iter().find(|apart| last / apart <= 9.0);
    let apart = apart.unwrap_or(last / 8.0);
    let mut hour = 0.0;
    while hour <= last {
        let (whole, minutes) = (hour.floor(), (hour.fract() * 60.0).round());
        let _ = write!(
            svg,
            "<text class=middle x={:.1} y={}>{whole:02}:{minutes:02}</text>",
            x(hour),
            HEIGHT - 8.0
        );
        hour += apart;
    }
    for line in series {
        let dashed = if line.dashed { " dashed" } else { "" };
        let _ = write!(svg, "<polyline class=\"c{}{dashed}\" points=\"", line.colour);
        for (hour, value) in thinned(hours, &line.values) {
            let _ = write!(svg, "{:.1},{:.1} ", x(hour), y(value));
        }
        svg.push_str("\" />");
    }
    svg.push_str("</svg><ul>");
    for line in series.iter().filter(|line| !line.dashed) {
        let _ = write!(svg, "<li class=c{}>{}</li>", line.colour, escape(line.name));
    }
    if series.iter().any(|line| line.dashed) {
        svg.push_str("<li class=dashed>dashed: what it can take</li>");
    }
    svg.push_str("</ul></figure>\n");
    svg
}

/// The worst of each run of points, so that no peak is lost.
fn thinned<'a>(hours: &'a [f64], values: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let run = hours.len().div_ceil(MOST_POINTS).max(1);
    let runs = hours.chunks(run).zip(values.chunks(run));
    runs.map(|(hours, values)| (hours[0], values.iter().copied().fold(f64::MIN, f64::max)))
}

/// A round distance between lines of the grid, and the top of it.
fn scale(most: f64) -> (f64, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let fits = |factor: &f64| most / (factor * power) <= 5.0;
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0) * power;
    (step, (most / step).ceil() * step)
}

fn number(value: f64) -> String {
    if value >= 10_000.0 {
        return format!("{:.0}k", value / 1000.0);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text that means nothing to a browser.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_round() {
        for (most, expected) in [(1100.0, (250.0, 1250.0)), (0.0, (0.2, 1.0)), (3.0, (1.0, 3.0))] {
            assert_eq!(scale(most), expected, "{most}");
        }
        assert_eq!(
            (number(0.25), number(50_000.0), number(3.0)),
            ("0.25".into(), "50k".into(), "3".into())
        );
    }
}
