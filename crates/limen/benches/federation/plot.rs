//! A small plot of how a hub grows, as SVG that needs nothing else to be seen.

use std::fmt::Write;

/// What was measured at one size.
pub(crate) struct Point {
    pub(crate) members: usize,
    pub(crate) roots: usize,
    /// Leaves in a second, while the last roots were spread.
    pub(crate) rate: f64,
    /// Resident memory of the hub.
    pub(crate) megabytes: f64,
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 46.0;
const COLOURS: [&str; 4] = ["#0b6e99", "#c0562b", "#4f7a28", "#6b4fa0"];

/// Two panels over the number of leaves: memory and rate, one line for each number of members.
pub(crate) fn svg(points: &[Point]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        // The last label of an axis reaches beyond its panel.
        2.0 * WIDTH + 16.0,
        HEIGHT + 24.0
    );
    panel(&mut out, 0.0, "resident memory of the hub, MB", points, |point| point.megabytes);
    panel(&mut out, WIDTH, "leaves/s while they are spread", points, |point| point.rate);
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, left: f64, title: &str, points: &[Point], of: impl Fn(&Point) -> f64) {
    let leaves = |point: &Point| count(point.members * point.roots);
    let widest = nice(points.iter().map(leaves).fold(0.0, f64::max));
    let highest = nice(points.iter().map(&of).fold(0.0, f64::max));
    let (inner, tall) = (WIDTH - MARGIN - 12.0, HEIGHT - MARGIN - 16.0);
    let x = |value: f64| left + MARGIN + value / widest * inner;
    let y = |value: f64| 24.0 + tall - value / highest * tall;
    let text = |out: &mut String, x: f64, y: f64, anchor: &str, words: &str| {
        let _ = writeln!(
            out,
            "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\" fill=\"#333\">{words}</text>"
        );
    };
    text(out, left + MARGIN, 14.0, "start", title);
    for step in 0..=4 {
        let value = highest * f64::from(step) / 4.0;
        let _ = writeln!(
            out,
            "<line x1=\"{:.0}\" x2=\"{:.0}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"#ddd\"/>",
            x(0.0),
            x(widest),
            y(value),
            y(value)
        );
        text(out, x(0.0) - 5.0, y(value) + 4.0, "end", &format!("{value:.0}"));
        let value = widest * f64::from(step) / 4.0;
        text(out, x(value), y(0.0) + 15.0, "middle", &format!("{value:.0}"));
    }
    text(out, x(widest / 2.0), y(0.0) + 30.0, "middle", "leaves (members x roots)");
    let mut sizes: Vec<usize> = points.iter().map(|point| point.members).collect();
    sizes.dedup();
    for (index, members) in sizes.into_iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line: Vec<&Point> = points.iter().filter(|point| point.members == members).collect();
        let path: Vec<String> = line
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(leaves(point)), y(of(point))))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for point in &line {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(leaves(point)),
                y(of(point))
            );
        }
        let row = HEIGHT + 4.0;
        let column = left + MARGIN + count(index) * 100.0;
        let _ = writeln!(
            out,
            "<rect x=\"{column:.0}\" y=\"{row:.0}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
        );
        text(out, column + 14.0, row + 9.0, "start", &format!("{members} members"));
    }
}

/// The next round number above a value, for the end of an axis.
fn nice(value: f64) -> f64 {
    let magnitude = 10f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let fitting = steps.into_iter().map(|step| step * magnitude).find(|end| *end >= value);
    fitting.unwrap_or(10.0 * magnitude)
}

#[expect(clippy::cast_precision_loss, reason = "counts of leaves are far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
