//! Formats finished comparisons for other tools: hyperfine's JSON, Bencher Metric Format, a CSV for Apache Otava, and a
//! history of our own. [`write`](write()) writes the files that the options name.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::{
    finished::{Finished, Side},
    lines::append,
    measure::{Measure, Sample, now},
    options::Exports,
    page::entry::WorkOfBoth,
    report::Spread,
    scenario::describe,
    stats::centre,
    work::{differences, figures},
};

/// Writes all files that `exports` names.
pub fn write(exports: &Exports, finished: &[Finished<'_>]) -> Result<()> {
    let save =
        |file: &Path, text: String| fs::write(file, text).with_context(|| format!("cannot write '{}'", file.display()));
    if let Some(file) = &exports.export_hyperfine {
        save(file, hyperfine(finished))?;
    }
    if let Some(file) = &exports.export_bencher {
        save(file, bencher(finished))?;
    }
    let now = now();
    if let Some(file) = &exports.export_otava {
        save(file, otava(finished, now))?;
    }
    if let Some(file) = &exports.history {
        append(file, history(finished, now))?;
    }
    Ok(())
}

/// Returns both sides of a comparison with their runs.
fn sides<'a>(finished: &'a Finished<'_>) -> [(&'a Side, &'a [Sample]); 2] {
    [(finished.sides[0], &finished.comparison.a), (finished.sides[1], &finished.comparison.b)]
}

fn values(samples: &[Sample], measure: Measure) -> Vec<f64> {
    samples.iter().filter_map(|sample| sample.value(measure)).collect()
}

/// Returns the results in the format of `hyperfine --export-json` of version 1: an entry for each side, in seconds and
/// bytes.
pub fn hyperfine(finished: &[Finished<'_>]) -> String {
    let result = |finished: &Finished<'_>, side: &Side, samples: &[Sample]| {
        let walls = values(samples, Measure::Wall);
        let spread = Spread::of(&walls);
        let mut parameters = finished.values.clone();
        parameters.insert("revision".to_owned(), side.name.clone());
        json!({
            "command": format!("{} ({})", finished.scenario.name, describe(&parameters)),
            "mean": spread.mean,
            "stddev": (walls.len() > 1).then_some(spread.deviation),
            "median": centre(&walls),
            "user": Spread::of(&values(samples, Measure::User)).mean,
            "system": Spread::of(&values(samples, Measure::System)).mean,
            "min": spread.least,
            "max": spread.most,
            "times": walls,
            "memory_usage_byte": samples.iter().map(|sample| sample.peak).collect::<Vec<_>>(),
            "exit_codes": vec![0; samples.len()],
            "parameters": parameters,
        })
    };
    let results: Vec<Value> = finished
        .iter()
        .flat_map(|finished| sides(finished).map(|(side, samples)| result(finished, side, samples)))
        .collect();
    format!("{:#}\n", json!({ "results": results }))
}

/// Returns the results in Bencher Metric Format: the medians of B, with the least and largest values as bounds.
/// `latency` is in nanoseconds, as Bencher defines it; other times are in seconds.
pub fn bencher(finished: &[Finished<'_>]) -> String {
    let mut benchmarks = Map::new();
    for finished in finished {
        let mut metrics = Map::new();
        for measure in Measure::ALL {
            let (name, scale) = match measure {
                Measure::Wall => ("latency", 1e9),
                other => (other.name(), 1.0),
            };
            let found: Vec<f64> = values(&finished.comparison.b, measure).iter().map(|value| value * scale).collect();
            if !found.is_empty() {
                let spread = Spread::of(&found);
                let metric =
                    json!({ "value": centre(&found), "lower_value": spread.least, "upper_value": spread.most });
                metrics.insert(name.to_owned(), metric);
            }
        }
        benchmarks.insert(title(finished), Value::Object(metrics));
    }
    format!("{:#}\n", Value::Object(benchmarks))
}

/// Returns a table for Apache Otava: `time_column: time`, `attributes: [commit, benchmark]`, and the measures as
/// metrics. Each row has the medians of one side. The rows of a comparison have the time of this run, one second apart,
/// because Otava orders rows by time.
pub fn otava(finished: &[Finished<'_>], now: u64) -> String {
    let mut text = "time,commit,benchmark".to_owned();
    Measure::ALL.iter().for_each(|measure| text += &format!(",{}", measure.name()));
    text.push('\n');
    for finished in finished {
        for ((side, samples), later) in sides(finished).into_iter().zip(0..) {
            text += &format!("{},{},{}", now + later, side.commit, cell(&title(finished)));
            for measure in Measure::ALL {
                let found = values(samples, measure);
                text += &if found.is_empty() { ",".to_owned() } else { format!(",{}", centre(&found)) };
            }
            text.push('\n');
        }
    }
    text
}

/// Returns a line of JSON for each comparison, with every run.
pub fn history(finished: &[Finished<'_>], now: u64) -> String {
    let line = |finished: &Finished<'_>| {
        let [a, b] = sides(finished)
            .map(|(side, samples)| json!({ "revision": side.name, "commit": side.commit, "runs": samples }));
        let outcome = finished.outcome;
        let known = |bound: f64| bound.is_finite().then_some(bound);
        json!({
            "time": now,
            "scenario": finished.scenario.name,
            "parameters": finished.values,
            "judge": finished.rules.judge,
            "false_alarms": finished.rules.rate,
            "a": a,
            "b": b,
            "verdict": outcome.verdict,
            "ratio": outcome.ratio,
            "low": known(outcome.interval.low),
            "high": known(outcome.interval.high),
            "work": work(finished),
        })
        .to_string()
    };
    finished.iter().map(|finished| line(finished) + "\n").collect()
}

/// Returns the work of both sides; `None` if it was not compared.
fn work(finished: &Finished<'_>) -> Option<WorkOfBoth> {
    let ([a, b], [of_a, of_b]) = (finished.sides, finished.work.as_ref().ok()?);
    Some(WorkOfBoth { differences: differences((&a.name, of_a), (&b.name, of_b)), figures: figures(of_a, of_b) })
}

/// Returns the name of a benchmark without its revision.
fn title(finished: &Finished<'_>) -> String {
    match describe(finished.values) {
        values if values.is_empty() => finished.scenario.name.clone(),
        values => format!("{} ({values})", finished.scenario.name),
    }
}

/// Encodes a field of a CSV file (RFC 4180).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
