//! Checks results for other tools against the formats that those tools publish.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::fs;

use common::Synthetic;
use serde_json::Value;

/// Returns the numbers in a list.
fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn each_format_has_the_fields_that_its_tool_wants() {
    let planted = Synthetic::new(
        "cat \"$BUILD/cost\" >\"$COST\"",
        "judge = 'reported'\n[parameters]\nrefcount = ['10']\nrefformat = ['files', 'a,b']",
    );
    let commits = [planted.commit("cost", "1000"), planted.commit("cost", "1100")];
    let file = |name: &str| planted.cache().with_file_name(name);
    let path = |name: &str| file(name).display().to_string();
    let (hyperfine, bencher, otava, history) = (path("h.json"), path("b.json"), path("o.csv"), path("all.jsonl"));
    let options = ["--export-hyperfine", &hyperfine, "--export-bencher", &bencher, "--export-otava", &otava];
    for _ in 0..2 {
        planted.said("run", "HEAD~1,HEAD", &[&options[..], &["--history", &history, "--false-alarms", "0.2"]].concat());
    }
    is_hyperfine(&serde_json::from_slice(&fs::read(hyperfine).unwrap()).unwrap());
    is_bencher(&serde_json::from_slice(&fs::read(bencher).unwrap()).unwrap());
    is_otava(&fs::read_to_string(otava).unwrap(), &commits);

    let lines = fs::read_to_string(history).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "two comparisons, twice");
    for line in lines {
        assert_eq!((line["verdict"].as_str().unwrap(), line["judge"].as_str().unwrap()), ("worse", "reported"));
        assert!(line["low"].as_f64().unwrap() < 1.1 && line["high"].as_f64().unwrap() > 1.1, "{line}");
        assert_eq!(line["b"]["commit"].as_str().unwrap(), commits[1]);
        assert_eq!(line["b"]["runs"][0]["reported"].as_f64().unwrap(), 1100.0);
        let work = &line["work"];
        assert_eq!(work.is_null(), !refdb_lab::stage::traces());
        assert!(work.is_null() || numbers(&work["figures"]["system calls"]).len() == 2, "{work}");
    }
}

/// Checks the fields of hyperfine's `BenchmarkResult`, and that the mean and the bounds are those of the times.
fn is_hyperfine(json: &Value) {
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let times = numbers(&result["times"]);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((result["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
        let [least, most] = ["min", "max"].map(|name| result[name].as_f64().unwrap());
        assert!(times.contains(&least) && times.contains(&most) && least <= mean && mean <= most);
        for name in ["stddev", "median", "user", "system"] {
            assert!(result[name].as_f64().unwrap() >= 0.0, "{name}");
        }
        assert_eq!(numbers(&result["memory_usage_byte"]).len(), times.len());
        assert_eq!(numbers(&result["exit_codes"]), vec![0.0; times.len()]);
    }
    assert_eq!(results[0]["command"], "planted (refcount = 10, refformat = files, revision = HEAD~1)");
    assert_eq!(results[3]["parameters"]["refformat"], "a,b");
    assert_eq!(results[3]["parameters"]["revision"], "HEAD");
}

/// Checks the schema of Bencher, objects of objects with the number `value`, and that each has both optional bounds.
fn is_bencher(json: &Value) {
    let benchmarks = json.as_object().unwrap();
    assert_eq!(benchmarks.len(), 2);
    for (name, metrics) in benchmarks {
        assert!(name.starts_with("planted (refcount = 10, refformat = ") && name.len() <= 1024, "{name}");
        for (measure, metric) in metrics.as_object().unwrap() {
            assert!(measure.len() <= 64);
            let metric = metric.as_object().unwrap();
            let [value, low, high] = ["value", "lower_value", "upper_value"].map(|name| metric[name].as_f64().unwrap());
            assert!(metric.len() == 3 && low <= value && value <= high, "{measure}: {metric:?}");
        }
        assert_eq!(metrics["reported"]["value"], 1100.0);
        assert!(metrics["latency"]["value"].as_f64().unwrap() > 10_000.0, "nanoseconds");
    }
}

/// Checks that there is one header, that each row has as many fields, and that a value with a comma is quoted.
fn is_otava(text: &str, commits: &[String; 2]) {
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time,commit,benchmark,wall,user,system,cpu,peak,instructions,reported");
    assert_eq!(lines.len(), 5);
    for (line, commit) in lines[1..].iter().zip(commits.iter().cycle()) {
        let (before, rest) = line.split_once(",\"").unwrap();
        let (title, after) = rest.split_once("\",").unwrap();
        let (time, found) = before.split_once(',').unwrap();
        assert!(time.parse::<u64>().unwrap() > 1_700_000_000 && found == commit, "{line}");
        assert!(title.starts_with("planted (refcount = 10, refformat = "), "{line}");
        assert_eq!(after.split(',').count(), 7, "{line}");
    }
}
