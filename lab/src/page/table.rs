//! Writes the table of a series, with peers and floors below it.

use std::fmt::Write;

use super::{
    Beside,
    entry::{Change, WorkOfBoth},
    escaped,
    history::{Point, Series, Step},
    places::Places,
};
use crate::{compare::Verdict, measure::Measure, work::grouped};

/// Maximum number of commits, and of comparisons, of a table that is unfolded when the page is opened.
const OPEN_MAX: usize = 30;

/// Returns the table of one series: every comparison, with the latest commit first, and of each commit the most
/// important one first. `number` is that of the series on the page.
pub fn table(series: &Series, number: usize, places: &Places<'_>, beside: &[Beside]) -> String {
    let title = if series.parameters.is_empty() { &series.scenario } else { &series.parameters };
    let mut rows = String::new();
    for point in series.points.iter().rev() {
        let place = places.index(&point.commit);
        for change in series.changes.iter().filter(|change| change.commit == point.commit) {
            let (commit, said) = (escaped(short(&change.commit)), escaped(&said(change)));
            _ = writeln!(
                rows,
                "<tr class=\"change\" data-x=\"{place}\"><td><code>{commit}</code></td><td \
                 colspan=\"8\">{said}</td></tr>"
            );
        }
        if point.steps.is_empty() {
            rows += &row(series, point, place, None);
        }
        for step in &point.steps {
            rows += &row(series, point, place, Some(step));
        }
    }
    let (commits, comparisons) = (series.points.len(), series.comparisons());
    let open = if commits.max(comparisons) <= OPEN_MAX { " open" } else { "" };
    let count =
        |number: usize, name: &str| format!("{} {name}{}", grouped(number as u64), if number == 1 { "" } else { "s" });
    let counted = if series.tool.is_empty() {
        format!("{}, {}", count(commits, "commit"), count(comparisons, "comparison"))
    } else {
        format!("{}, not measured in pairs", count(commits, "value"))
    };
    format!(
        "<details id=\"s{number}\" data-s=\"{number}\"{open}>\n<summary>{}: {counted}</summary>\n<div \
         class=\"table\"><table class=\"all\">\n<thead><tr><th>commit</th><th>revision</th><th>{}</th><th>level</th>\
         <th>ratio</th><th>to</th><th>verdict</th><th>runs</th><th>work</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n{}</details>\n",
        escaped(title),
        series.judge.name(),
        neighbours(series, beside)
    )
}

/// Returns the row of one comparison, or of a commit that was compared with none.
fn row(series: &Series, point: &Point, place: usize, step: Option<&Step>) -> String {
    let commit = escaped(short(&point.commit));
    // The revision is left out if it says no more than the commit.
    let revision = if point.commit.starts_with(&point.revision) { "" } else { &point.revision };
    let (value, runs) = step.map_or((point.value, point.runs), |step| (step.value, step.runs));
    let value = escaped(&amount(value, series.judge));
    let compared = step.map_or("<td></td><td></td><td></td>".to_owned(), |step| {
        format!("<td>{}</td><td><code>{}</code></td>{}", ratio(step), escaped(short(&step.before)), judged(step))
    });
    format!(
        "<tr data-x=\"{place}\"><td><code>{commit}</code></td><td>{}</td><td>{value}</td><td>{:.3}</td>{compared}\
         <td>{}</td><td>{}</td></tr>\n",
        escaped(revision),
        point.level,
        if runs == 0 { String::new() } else { runs.to_string() },
        step.and_then(|step| step.work.as_ref()).map_or(String::new(), work)
    )
}

/// Returns the ratio of a comparison with its interval.
pub(super) fn ratio(step: &Step) -> String {
    let bound = |bound: Option<f64>| bound.map_or("?".to_owned(), |bound| format!("{bound:.3}"));
    format!("{:.3} ({} to {})", step.ratio, bound(step.low), bound(step.high))
}

/// Returns the cell with the verdict of a comparison.
pub(super) fn judged(step: &Step) -> String {
    let name = verdict(step.verdict);
    if step.verdict == Verdict::CannotTell {
        format!("<td>{name}</td>")
    } else {
        format!("<td class=\"{name}\">{name}</td>")
    }
}

/// Describes how the work of both sides differs.
pub(super) fn differing(work: &WorkOfBoth) -> String {
    if work.differences.is_empty() { "same work".to_owned() } else { work.differences.join("; ") }
}

/// Describes the work of both sides: how it differs, and each figure of A and of B.
fn work(work: &WorkOfBoth) -> String {
    let figures = work.figures.iter().map(|(name, [a, b])| format!("{name} {} / {}", grouped(*a), grouped(*b)));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let figures = if figures.is_empty() { figures } else { format!(" ({figures})") };
    escaped(&format!("{}{figures}", differing(work)))
}

/// Describes a change of a series.
pub(super) fn said(change: &Change) -> String {
    let times = change.ratio.map_or(String::new(), |ratio| format!(", {ratio:.3} times"));
    let confirmed = match change.confirmed {
        Some(true) => "confirmed",
        Some(false) => "not confirmed",
        None => "not yet confirmed",
    };
    let said = if change.said.is_empty() { String::new() } else { format!(": {}", change.said) };
    format!("change, {}{times}, {confirmed}{said}", change.direction)
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
