//! Draws a plot of some series as inline SVG. It fits any screen, while text, lines and points keep their size: labels,
//! grid lines, changes and marked points are placed in percent of the width, and everything else is a path in a
//! stretched picture.

use std::fmt::Write;

use super::{
    escaped,
    history::{Point, Series},
    places::Places,
    table::{said, short, verdict},
};
use crate::compare::Verdict;

/// Maximum number of series in one plot. The style sheet has this many colours.
pub const SERIES_MAX: usize = 6;

/// Maximum number of commits of a plot in which each point has a title. In longer ones, only points whose most
/// important comparison found a difference have one.
const TITLES_MAX: usize = 150;

/// The height in pixels, which the style sheet and the script repeat.
const HEIGHT: f64 = 220.0;

/// The width of the stretched picture, in its own units.
const WIDTH: f64 = 10_000.0;

/// Returns the figure of a few series of one scenario, each with its number on the page.
pub fn figure(few: &[&Series], numbers: &[usize], places: &Places<'_>) -> String {
    let scale = Scale::of(few);
    let mut svg = String::new();
    for tick in scale.ticks() {
        let y = scale.y(tick);
        _ = writeln!(svg, "<line class=\"grid\" x1=\"0%\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        _ = writeln!(svg, "<text x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{tick:.*}</text>", y + 4.0, scale.digits());
    }
    let names = places.names();
    let ends = [(names.first(), "start", "0%"), (names.last().filter(|_| names.len() > 1), "end", "100%")];
    for (commit, anchor, x) in ends {
        if let Some(commit) = commit {
            let name = escaped(short(commit));
            _ = writeln!(svg, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>", HEIGHT + 18.0);
        }
    }
    let mut legend = String::new();
    for ((colour, series), number) in few.iter().enumerate().zip(numbers) {
        svg += &drawn(series, (colour, *number), places, &scale);
        let name = escaped(name(series));
        legend += &format!("<li data-s=\"{number}\"><i class=\"s{colour}{}\"></i>{name}</li>", hollow(series));
    }
    let label = format!("Costs of {} as multiples of the first commit's", escaped(&few[0].scenario));
    format!(
        "<figure>\n<ul class=\"legend\">{legend}</ul>\n<div class=\"plot\"><svg role=\"img\" aria-label=\"{label}\" \
         data-n=\"{}\">\n{svg}</svg></div>\n</figure>\n",
        names.len()
    )
}

/// Returns the name of a series in the legend.
fn name(series: &Series) -> &str {
    if series.parameters.is_empty() { &series.scenario } else { &series.parameters }
}

/// Returns the class that marks a series that was not measured in pairs; empty for any other series.
fn hollow(series: &Series) -> &'static str {
    if series.tool.is_empty() { "" } else { " imported" }
}

/// Returns the lines and points of one series.
fn drawn(series: &Series, (colour, number): (usize, usize), places: &Places<'_>, scale: &Scale) -> String {
    let mut points: Vec<&Point> = series.points.iter().collect();
    points.sort_by_key(|point| places.index(&point.commit));
    let (mut line, mut dots, mut bars, mut marked) = (String::new(), String::new(), String::new(), String::new());
    let has_titles = places.names().len() <= TITLES_MAX;
    for (count, point) in points.iter().enumerate() {
        let (part, y) = (places.part(&point.commit), scale.y(point.level));
        let x = part * WIDTH;
        _ = write!(line, "{}{x:.0},{y:.1}", if count == 0 { "M" } else { "L" });
        if let Some((low, high)) = bar(point) {
            _ = write!(bars, "M{x:.0},{:.1}V{:.1}", scale.y(low), scale.y(high));
        }
        let worst = point.steps.first().map(|step| step.verdict).filter(|verdict| *verdict != Verdict::CannotTell);
        if has_titles || worst.is_some() {
            let class = worst.map_or("", verdict);
            let told = point.steps.first().map_or(String::new(), |step| format!(": {}", verdict(step.verdict)));
            let title = escaped(&format!("{} {}: {:.3}{told}", short(&point.commit), point.revision, point.level));
            _ = writeln!(
                marked,
                "<circle class=\"point {class}\" cx=\"{:.3}%\" cy=\"{y:.1}\" r=\"5\"><title>{title}</title></circle>",
                part * 100.0
            );
        } else {
            _ = write!(dots, "M{x:.0},{y:.1}h0");
        }
    }
    for change in &series.changes {
        let (x, title) = (places.part(&change.commit) * 100.0, escaped(&said(change)));
        _ = writeln!(
            marked,
            "<line class=\"change\" x1=\"{x:.3}%\" x2=\"{x:.3}%\" y1=\"0\" y2=\"{HEIGHT}\"><title>{title}</title>\
             </line>"
        );
    }
    let path = |class: &str, path: &str| match path {
        "" => String::new(),
        path => format!("<path class=\"{class}\" d=\"{path}\"/>\n"),
    };
    format!(
        "<g class=\"s{colour}{}\" data-s=\"{number}\">\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"none\">\n{}{}{}</svg>\n{marked}</g>\n",
        hollow(series),
        path("bar", &bars),
        path("line", &line),
        path("dots", &dots)
    )
}

/// Returns the interval of the level of a point, if both ends are known.
fn bar(point: &Point) -> Option<(f64, f64)> {
    let step = point.steps.iter().max_by_key(|step| step.time)?;
    let of_one = point.level / step.ratio;
    Some((step.low? * of_one, step.high? * of_one)).filter(|(low, high)| low.is_finite() && high.is_finite())
}
/// The scale that maps levels to pixels.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Returns a scale for all points, with a margin for their bars. Bars that exceed the margin are cut off, so that
    /// they do not press the points together.
    fn of(few: &[&Series]) -> Scale {
        let levels =
            || few.iter().flat_map(|series| &series.points).map(|point| point.level).filter(|level| level.is_finite());
        let (low, high) = (levels().fold(1.0, f64::min), levels().fold(1.0, f64::max));
        let air = (high - low).mul_add(0.25, 0.02);
        Scale { low: (low - air).max(0.0), high: high + air }
    }

    fn y(&self, level: f64) -> f64 {
        let level = if level.is_finite() { level.clamp(self.low, self.high) } else { self.high };
        HEIGHT * (self.high - level) / (self.high - self.low)
    }

    /// Returns the distance between ticks: 1, 2 or 5 times a power of ten, for some four to ten ticks.
    fn step(&self) -> f64 {
        let wanted = (self.high - self.low) / 4.0;
        let power = 10_f64.powf(wanted.log10().floor());
        [5.0, 2.0, 1.0].map(|part| part * power).into_iter().find(|step| *step <= wanted).unwrap_or(power)
    }

    fn ticks(&self) -> Vec<f64> {
        let step = self.step();
        let first = (self.low / step).ceil();
        (0..20).map(|number| (first + f64::from(number)) * step).take_while(|tick| *tick <= self.high).collect()
    }

    /// Returns the number of decimals that distinguish two ticks.
    fn digits(&self) -> usize {
        (-self.step().log10().floor()).clamp(0.0, 9.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (low, high) in [(0.98, 1.02), (0.0, 12.0), (0.5, 3.2), (0.99, 1400.0)] {
            let scale = Scale { low, high };
            let ticks = scale.ticks();
            assert!((3..=12).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| *tick >= low && *tick <= high));
        }
        let scale = Scale { low: 0.95, high: 1.15 };
        assert_eq!((scale.digits(), scale.y(1.15), scale.y(0.95), scale.y(f64::INFINITY)), (2, 0.0, HEIGHT, 0.0));
    }
}
