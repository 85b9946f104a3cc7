//! Writes the table of a series, with peers and floors below it.

use std::fmt::Write;

use super::{Beside, escaped, history::Series};
use crate::{compare::Verdict, measure::Measure};

/// Returns the table of one series, with the latest commit first.
pub fn table(series: &Series, beside: &[Beside]) -> String {
    let title = if series.parameters.is_empty() { &series.scenario } else { &series.parameters };
    let mut rows = String::new();
    for point in series.points.iter().rev() {
        let cell = |value: f64| format!("<td class=\"number\">{}</td>", escaped(&amount(value, series.judge)));
        let step = point.step.as_ref().map_or("<td></td><td></td><td></td>".to_owned(), |step| {
            let bound = |bound: Option<f64>| bound.map_or("?".to_owned(), |bound| format!("{bound:.3}"));
            let name = verdict(step.verdict);
            let class = if step.verdict == Verdict::CannotTell { "" } else { name };
            let before = escaped(short(&step.before));
            format!(
                "<td class=\"number\">{:.3} ({} to {})</td><td><code>{before}</code></td><td \
                 class=\"{class}\">{name}</td>",
                step.ratio,
                bound(step.low),
                bound(step.high)
            )
        });
        _ = writeln!(
            rows,
            "<tr><td><code>{}</code></td><td>{}</td>{}<td class=\"number\">{:.3}</td>{step}<td \
             class=\"number\">{}</td></tr>",
            escaped(short(&point.commit)),
            escaped(&point.revision),
            cell(point.value),
            point.level,
            point.runs
        );
    }
    format!(
        "<div class=\"table\"><table>\n<caption>{}</caption>\n<thead><tr><th>commit</th><th>revision</th>\
         <th class=\"number\">{}</th><th class=\"number\">level</th><th \
         class=\"number\">ratio</th><th>to</th><th>verdict</th>\
         <th class=\"number\">runs</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{}",
        escaped(title),
        series.judge.name(),
        neighbours(series, beside)
    )
}

/// Returns the table that compares peers and floors with the last commit.
fn neighbours(series: &Series, beside: &[Beside]) -> String {
    let Some(last) = series.points.last() else { return String::new() };
    let mut rows = String::new();
    for other in beside {
        let same = |known: &&Series| {
            (&known.scenario, &known.parameters, known.judge) == (&series.scenario, &series.parameters, series.judge)
        };
        let Some(point) = other.series.iter().find(same).and_then(|known| known.points.last()) else { continue };
        _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:.2}</td></tr>",
            escaped(&other.name),
            other.kind,
            escaped(&amount(point.value, series.judge)),
            last.value / point.value
        );
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<div class=\"table\"><table>\n<caption>Beside others</caption>\n<thead><tr><th>name</th><th></th><th \
         class=\"number\">{}</th>\
         <th class=\"number\"><code>{}</code> in multiples of \
         it</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        series.judge.name(),
        escaped(short(&last.commit))
    )
}

/// Formats a value with its unit.
fn amount(value: f64, judge: Measure) -> String {
    match judge {
        Measure::Peak => format!("{:.1} MiB", value / f64::from(1 << 20)),
        Measure::Instructions => format!("{:.3} M", value / 1e6),
        Measure::Reported => format!("{value}"),
        _ if value < 1.0 => format!("{:.2} ms", value * 1000.0),
        _ => format!("{value:.2} s"),
    }
}

/// Returns the verdict in a word or two.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::CannotTell => "cannot tell",
    }
}

/// Returns the first ten characters of the id of a commit.
pub(super) fn short(commit: &str) -> &str {
    commit.char_indices().nth(10).map_or(commit, |(end, _)| &commit[..end])
}
