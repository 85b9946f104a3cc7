//! Formats the result of a comparison in the style of hyperfine, with the verdict below it.

use std::fmt::Write;

use crate::{
    compare::{Outcome, Rules, Verdict},
    finished::{Finished, Side},
    measure::{Measure, Sample},
    scenario::describe,
    shown::{shown, shown_lines},
    stats::{Interval, centre},
    work::{differences, grouped},
};

/// Returns the report of one comparison.
pub fn run(finished: &Finished<'_>) -> String {
    let mut text = String::new();
    let values = describe(finished.values);
    for (number, (side, samples)) in
        finished.sides.iter().zip([&finished.comparison.a, &finished.comparison.b]).enumerate()
    {
        let values = if values.is_empty() { String::new() } else { format!("{values}, ") };
        let title = shown(&format!("{} ({values}revision = {})", finished.scenario.name, side.name));
        text += &format!("Benchmark {}: {title}\n{}\n", number + 1, figures(samples, finished.rules.judge));
    }
    text += &verdict(finished.sides, &finished.outcome, &finished.rules, finished.comparison.differences.len());
    text += finished.counter.words();
    if finished.side_by_side {
        text += "both runs of a pair happened at the same time\n";
    }
    text += &same_work(finished);
    text.push('\n');
    shown_lines(&text)
}

/// Returns the lines of one side as hyperfine writes them, and a line with the other measures.
fn figures(samples: &[Sample], judge: Measure) -> String {
    let of = |measure: Measure| -> Vec<f64> { samples.iter().filter_map(|sample| sample.value(measure)).collect() };
    let walls = of(Measure::Wall);
    let (unit, scale) = unit(centre(&walls));
    let time = |value: f64| format!("{:.1} {unit}", value * scale);
    let Spread { mean, deviation, least, most } = Spread::of(&walls);
    let mut text = String::new();
    let (user, system) = (Spread::of(&of(Measure::User)).mean, Spread::of(&of(Measure::System)).mean);
    _ = writeln!(
        text,
        "  Time (mean ± σ):     {} ± {}    [User: {}, System: {}]",
        time(mean),
        time(deviation),
        time(user),
        time(system)
    );
    _ = writeln!(text, "  Range (min … max):   {} … {}    {} runs", time(least), time(most), walls.len());
    let mut more = vec![format!("peak memory {:.1} MiB", centre(&of(Measure::Peak)) / f64::from(1 << 20))];
    if let [_, ..] = of(Measure::Instructions).as_slice() {
        more.push(format!("instructions {:.3} M", centre(&of(Measure::Instructions)) / 1e6));
    }
    if judge == Measure::Reported {
        more.push(format!("reported cost {}", centre(&of(Measure::Reported))));
    }
    _ = writeln!(text, "  Median:              {}", more.join(", "));
    text
}

/// Returns the verdict in a sentence.
fn verdict([a, b]: [&Side; 2], outcome: &Outcome, rules: &Rules, runs: usize) -> String {
    let words = rules.judge.words();
    let sure = format!("{} % sure", 100.0 * (1.0 - rules.rate));
    let known = interval(outcome.interval);
    let runs = format!("{runs} runs a side");
    match outcome.verdict {
        Verdict::CannotTell if outcome.equal => format!(
            "cannot tell: the {words} of {} and {} differ by less than {} % ({sure}, {runs})\n",
            b.name,
            a.name,
            100.0 * rules.tolerance
        ),
        Verdict::CannotTell => {
            format!("cannot tell: {} takes {known} times the {words} of {} ({sure}, {runs})\n", b.name, a.name)
        }
        Verdict::Better | Verdict::Worse => format!(
            "{}: {} takes {} times the {words} of {} ({known}, {sure}, {runs}){}\n",
            if outcome.verdict == Verdict::Worse { "worse" } else { "better" },
            b.name,
            decimals(outcome.ratio),
            a.name,
            if outcome.equal {
                format!(", which is a difference of less than {} %", 100.0 * rules.tolerance)
            } else {
                String::new()
            }
        ),
    }
}

/// Returns a ratio with three decimals, or with six if three would show a difference as 1.000.
fn decimals(ratio: f64) -> String {
    let is_near_one = (ratio - 1.0).abs() < 0.0005 && ratio != 1.0;
    if is_near_one { format!("{ratio:.6}") } else { format!("{ratio:.3}") }
}

/// Returns sentences that say whether both sides did the same work and, if not, how it differs, or why it was not
/// compared.
fn same_work(finished: &Finished<'_>) -> String {
    let [a, b] = finished.sides;
    let [of_a, of_b] = match &finished.work {
        Ok(both) => both,
        Err(why) => return format!("same work: not compared: {why}\n"),
    };
    let calls = [of_a, of_b].map(|work| grouped(work.calls));
    let calls = format!("system calls: {} in {}, {} in {}\n", calls[0], a.name, calls[1], b.name);
    let differences = differences((&a.name, of_a), (&b.name, of_b));
    if differences.is_empty() {
        return format!("{calls}same work: as many programs, threads, bytes, syncs, files, refs and packs\n");
    }
    let start = format!("{calls}NOT the same work:\n");
    differences.iter().fold(start, |text, difference| format!("{text}  {difference}\n"))
}

/// Returns the interval of a ratio in words.
pub fn interval(known: Interval) -> String {
    match (known.low > 0.0, known.high.is_finite()) {
        (true, true) => format!("{} to {}", decimals(known.low), decimals(known.high)),
        (true, false) => format!("{} or more", decimals(known.low)),
        (false, true) => format!("{} or less", decimals(known.high)),
        (false, false) => "any number of".to_owned(),
    }
}

/// Returns the unit for a number of seconds, and the number of these units in a second.
fn unit(seconds: f64) -> (&'static str, f64) {
    if seconds < 1.0 { ("ms", 1000.0) } else { ("s", 1.0) }
}

/// The mean, standard deviation and range of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation; 0 for a single value.
    pub deviation: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    /// Returns the spread of `values`; all zeros if there are none.
    pub fn of(values: &[f64]) -> Spread {
        let count = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread {
            mean,
            deviation: if values.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() },
            least: values.iter().copied().reduce(f64::min).unwrap_or_default(),
            most: values.iter().copied().reduce(f64::max).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((spread.mean, spread.least, spread.most), (5.0, 2.0, 9.0));
        assert!((spread.deviation - 2.138_09).abs() < 1e-5);
        assert_eq!(Spread::of(&[3.0]).deviation, 0.0);
    }

    #[test]
    fn an_interval_that_knows_nothing_says_so() {
        assert_eq!(interval(Interval { low: 0.0, high: f64::INFINITY }), "any number of");
        assert_eq!(interval(Interval { low: 1.5, high: 2.0 }), "1.500 to 2.000");
        assert_eq!(interval(Interval { low: 0.0, high: 0.9 }), "0.900 or less");
        assert_eq!(interval(Interval { low: 1.0, high: 1.000_31 }), "1.000 to 1.000310");
    }
}
