//! Parses the JSON of hyperfine, Bencher and Criterion. Errors of the parser have the line and the column.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::{About, measure, time};
use crate::{measure::Measure, page::entry::Imported, scenario::Values};

#[derive(Debug, Deserialize)]
struct Hyperfine {
    results: Vec<HyperfineResult>,
}

#[derive(Debug, Deserialize)]
struct HyperfineResult {
    command: String,
    mean: f64,
    median: Option<f64>,
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    parameters: Values,
}

/// Returns the medians, or else the means, of a file of `hyperfine --export-json`. The parameter `commit` or
/// `revision` names the commit; if there is neither, the name of the file does.
pub fn hyperfine(text: &str, about: About<'_>) -> Result<Vec<Imported>> {
    let read: Hyperfine = serde_json::from_str(text)?;
    let one = |result: HyperfineResult| {
        let mut parameters = result.parameters;
        let named = parameters.remove("commit").or(parameters.remove("revision"));
        // The name of the commit is no part of what is measured.
        let command = match &named {
            Some(name) => without(&result.command, name),
            None => result.command,
        };
        let commit = named.unwrap_or_else(|| about.stem());
        Imported {
            tool: "hyperfine".to_owned(),
            time: about.modified,
            scenario: command,
            parameters,
            judge: Measure::Wall,
            revision: commit.clone(),
            commit,
            value: result.median.unwrap_or(result.mean),
            runs: result.times.len(),
        }
    };
    Ok(read.results.into_iter().map(one).collect())
}

/// Returns a command in which the word `name` is replaced by COMMIT.
fn without(command: &str, name: &str) -> String {
    let words = command.split_inclusive(|letter: char| letter.is_whitespace() || "='\"(),:;".contains(letter));
    let replaced = |word: &str| {
        let bare = word.trim_end_matches(|letter: char| letter.is_whitespace() || "='\"(),:;".contains(letter));
        if !name.is_empty() && bare == name { format!("COMMIT{}", &word[bare.len()..]) } else { word.to_owned() }
    };
    words.map(replaced).collect()
}

/// Bencher Metric Format: benchmarks, and their measures.
type Metrics = BTreeMap<String, BTreeMap<String, BencherMetric>>;

#[derive(Debug, Deserialize)]
struct Perf {
    results: Vec<PerfMetrics>,
}

#[derive(Debug, Deserialize)]
struct BencherMetric {
    value: f64,
}

#[derive(Debug, Deserialize)]
struct PerfMetrics {
    benchmark: Named,
    measure: Named,
    testbed: Option<Named>,
    metrics: Vec<PerfMetric>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    slug: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PerfMetric {
    start_time: String,
    version: Option<Version>,
    metric: Option<BencherMetric>,
}

#[derive(Debug, Deserialize)]
struct Version {
    number: u64,
    hash: Option<String>,
}

/// Returns the values of a file in Bencher Metric Format, whose name stands for the commit, or of the JSON of `bencher
/// perf`, which has many commits.
pub fn bencher(text: &str, about: About<'_>) -> Result<Vec<Imported>> {
    // In Bencher Metric Format, `results` could only be the name of a benchmark, whose value is an object and no list.
    let json: serde_json::Value = serde_json::from_str(text)?;
    let is_perf = json.get("results").is_some_and(serde_json::Value::is_array);
    let one = |benchmark: &str, name: &str, value: f64| {
        let known = measure(name);
        Imported {
            tool: "bencher".to_owned(),
            time: about.modified,
            scenario: if known.is_some() { benchmark.to_owned() } else { format!("{benchmark}: {name}") },
            parameters: Values::new(),
            judge: known.map_or(Measure::Reported, |(measure, _)| measure),
            revision: about.stem(),
            commit: about.stem(),
            value: value * known.map_or(1.0, |(_, scale)| scale),
            runs: 0,
        }
    };
    let mut found = Vec::new();
    if !is_perf {
        for (benchmark, metrics) in &serde_json::from_str::<Metrics>(text)? {
            found.extend(metrics.iter().map(|(name, metric)| one(benchmark, name, metric.value)));
        }
        return Ok(found);
    }
    for result in serde_json::from_str::<Perf>(text)?.results {
        let name = result.measure.slug.as_ref().unwrap_or(&result.measure.name);
        let testbed = result.testbed.map(|testbed| ("testbed".to_owned(), testbed.name));
        let parameters: Values = testbed.into_iter().collect();
        for (number, metric) in result.metrics.iter().enumerate() {
            let Some(value) = &metric.metric else { continue };
            let place = || format!("metric {} of '{}'", number + 1, result.benchmark.name);
            let time = time::parse(&metric.start_time)
                .with_context(|| format!("{}: '{}' is no time", place(), metric.start_time))?;
            let version = metric.version.as_ref();
            let commit = version.and_then(|version| version.hash.clone());
            let commit = commit.or(version.map(|version| format!("version {}", version.number)));
            let commit = commit.unwrap_or_else(|| metric.start_time.clone());
            let (revision, parameters) = (commit.clone(), parameters.clone());
            let of_name = one(&result.benchmark.name, name, value.value);
            found.push(Imported { time, commit, revision, parameters, ..of_name });
        }
    }
    Ok(found)
}

#[derive(Debug, Deserialize)]
struct Estimates {
    mean: Estimate,
    median: Option<Estimate>,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    point_estimate: f64,
}

#[derive(Debug, Deserialize)]
struct Benchmark {
    full_id: String,
}

/// Returns the median, or else the mean, of a file `estimates.json` of Criterion. The folder of that file has the
/// name of the baseline, which stands for the commit, and `names` is the text of `benchmark.json` beside it. Without
/// that text, the folders above name the benchmark.
pub fn criterion(text: &str, about: About<'_>, names: Option<&str>) -> Result<Vec<Imported>> {
    let read: Estimates = serde_json::from_str(text)?;
    let folders: Vec<String> =
        about.path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let [above @ .., baseline, _] = folders.as_slice() else {
        bail!("it does not lie in a folder that Criterion made, such as target/criterion/NAME/BASELINE/estimates.json");
    };
    let scenario = match names {
        Some(names) => serde_json::from_str::<Benchmark>(names).context("'benchmark.json' beside it")?.full_id,
        None => {
            let start = above
                .iter()
                .rposition(|folder| folder == "criterion")
                .map_or(above.len().saturating_sub(1), |at| at + 1);
            above.get(start..).unwrap_or_default().join("/")
        }
    };
    ensure!(!scenario.is_empty(), "neither a folder nor 'benchmark.json' names the benchmark");
    Ok(vec![Imported {
        tool: "criterion".to_owned(),
        time: about.modified,
        scenario,
        parameters: Values::new(),
        judge: Measure::Wall,
        revision: baseline.clone(),
        commit: baseline.clone(),
        value: read.median.unwrap_or(read.mean).point_estimate * 1e-9,
        runs: 0,
    }])
}
