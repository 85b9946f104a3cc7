//! Reads a scenario: a TOML file that says how to build a revision, how to create a state, and which command to
//! measure in it. docs/lab.md describes each key.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use crate::measure::Measure;

/// The scenarios that come with the lab, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("fetch", include_str!("../scenarios/fetch.toml")),
    ("jobs", include_str!("../scenarios/jobs.toml")),
    ("receive", include_str!("../scenarios/receive.toml")),
];

/// The content of a scenario file. `build`, `setup`, `prepare`, `command` and `check` are scripts for `sh -e`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The name in reports, which is that of the file without its extension.
    #[serde(skip)]
    pub name: String,
    /// A sentence that describes the scenario.
    #[serde(default)]
    pub about: String,
    /// The values of each parameter. Every combination is a separate comparison.
    #[serde(default)]
    pub parameters: BTreeMap<String, Vec<String>>,
    /// Additional variables that scripts see when a parameter has a certain value, by parameter and value.
    #[serde(default)]
    pub cases: BTreeMap<String, BTreeMap<String, Values>>,
    /// The script that builds the revision in the current folder into `$BUILD`.
    pub build: String,
    /// The script that creates the state from which each run starts, once for each side.
    #[serde(default)]
    pub setup: String,
    /// The script that runs before each measured run, in a fresh copy of the state that `setup` created.
    #[serde(default)]
    pub prepare: String,
    /// The measured command, which runs in the copy of the state in which `prepare` ran.
    pub command: String,
    /// The script that fails if something does not hold after a run.
    #[serde(default)]
    pub check: String,
    /// The measure that decides, unless the caller names another.
    #[serde(default)]
    pub judge: Measure,
    /// Whether git's automatic maintenance is measured too.
    #[serde(default)]
    pub automatic_maintenance: bool,
    /// CPU seconds after which a process of the command, `setup`, `prepare` or `check` is ended. The script then fails,
    /// unless it goes on without that process. To the command under strace or valgrind, a multiple of this applies.
    #[serde(default = "five_minutes")]
    pub cpu_limit: u64,
    /// Seconds after which the command, `setup`, `prepare` or `check` is ended and has failed, whether it computes or
    /// waits. To the command under strace or valgrind, a multiple of this applies.
    #[serde(default = "ten_minutes")]
    pub wall_limit: u64,
    /// Seconds after which a build is ended and has failed.
    #[serde(default = "one_hour")]
    pub build_limit: u64,
}

/// Maximum value of each limit, in seconds: about three years.
const LIMIT_MAX: u64 = 100_000_000;

/// The values of parameters, or of other variables that scripts see, by name.
pub type Values = BTreeMap<String, String>;

fn five_minutes() -> u64 {
    300
}

fn ten_minutes() -> u64 {
    600
}

fn one_hour() -> u64 {
    3600
}

impl Scenario {
    /// Returns whether a scenario of this name comes with the lab.
    pub fn is_shipped(name: &str) -> bool {
        SHIPPED.iter().any(|(shipped, _)| *shipped == name)
    }

    /// Returns the shipped scenario of this name, or if there is none, reads the scenario in the file `name`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a scenario.
    pub fn find(name: &str) -> Result<Scenario> {
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Scenario::parse(name, text);
        }
        let path = Path::new(name);
        let bytes = fs::read(path).with_context(|| {
            let shipped: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!("no scenario '{name}': name a file, or one of {}", shipped.join(", "))
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|error| anyhow!("scenario '{name}': byte {} is no UTF-8", error.utf8_error().valid_up_to()))?;
        let stem = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        Scenario::parse(&stem, &text).with_context(|| format!("scenario '{name}'"))
    }

    /// Parses the text of a scenario file.
    ///
    /// # Errors
    ///
    /// Fails, with the number of the line, if the text is not a scenario, or if a key has an invalid value.
    pub fn parse(name: &str, text: &str) -> Result<Scenario> {
        let mut scenario: Scenario = toml::from_str(text)?;
        name.clone_into(&mut scenario.name);
        let at = |path: &[&str], checked: Result<()>| {
            checked.map_err(|error| match line_of(text, path) {
                Some(line) => error.context(format!("line {line}")),
                None => error,
            })
        };
        for (key, script) in [("build", &scenario.build), ("command", &scenario.command)] {
            at(&[key], if script.trim().is_empty() { Err(anyhow!("'{key}' is empty")) } else { Ok(()) })?;
        }
        let limits = [
            ("cpu-limit", scenario.cpu_limit),
            ("wall-limit", scenario.wall_limit),
            ("build-limit", scenario.build_limit),
        ];
        for (key, limit) in limits {
            let said = || anyhow!("'{key}' is {limit}: it is from 1 to {LIMIT_MAX} seconds");
            at(&[key], if (1..=LIMIT_MAX).contains(&limit) { Ok(()) } else { Err(said()) })?;
        }
        for (name, values) in &scenario.parameters {
            at(&["parameters", name], check_parameter(name, values))?;
        }
        for (parameter, cases) in &scenario.cases {
            at(&["cases", parameter], scenario.check_case_of(parameter))?;
            for (value, variables) in cases {
                at(&["cases", parameter, value], scenario.check_value(parameter, value))?;
                for (name, text) in variables {
                    let checked = scenario.check_variable(&format!("cases.{parameter}.{value}.{name}"), name, text);
                    at(&["cases", parameter, value, name], checked)?;
                }
            }
        }
        Ok(scenario)
    }

    /// Fails if there are variables for a parameter that does not exist, because they would never take effect.
    fn check_case_of(&self, parameter: &str) -> Result<()> {
        ensure!(self.parameters.contains_key(parameter), "'cases.{parameter}' is of no parameter");
        Ok(())
    }

    /// Fails if there are variables for a value that its parameter does not have.
    fn check_value(&self, parameter: &str, value: &str) -> Result<()> {
        let is_known = self.parameters.get(parameter).is_some_and(|values| values.iter().any(|known| known == value));
        ensure!(is_known, "'cases.{parameter}.{value}': '{value}' is no value of '{parameter}'");
        Ok(())
    }

    /// Fails if a variable has an invalid name or value, or the name of a parameter.
    fn check_variable(&self, path: &str, name: &str, text: &String) -> Result<()> {
        check_parameter(name, std::slice::from_ref(text))?;
        ensure!(!self.parameters.contains_key(name), "'{path}' is a parameter too");
        Ok(())
    }

    /// Returns the additional variables for these values.
    pub fn variables(&self, values: &Values) -> Values {
        let of = |(parameter, value): (&String, &String)| self.cases.get(parameter)?.get(value);
        values.iter().filter_map(of).flatten().map(|(name, text)| (name.clone(), text.clone())).collect()
    }

    /// Replaces the values that the scenario file gives a parameter.
    ///
    /// # Errors
    ///
    /// Fails if the scenario has no such parameter, or if `values` is empty or has an invalid value.
    pub fn choose(&mut self, name: &str, values: Vec<String>) -> Result<()> {
        check_parameter(name, &values)?;
        let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        ensure!(
            self.parameters.contains_key(name),
            "the scenario has no parameter '{name}', only: {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        );
        self.parameters.insert(name.to_owned(), values);
        Ok(())
    }

    /// Returns every combination of the values of the parameters, or a single empty one if there are no parameters.
    pub fn combinations(&self) -> Vec<Values> {
        let mut all = vec![Values::new()];
        for (name, values) in &self.parameters {
            let with = |so_far: &Values, value: &String| {
                let mut longer = so_far.clone();
                longer.insert(name.clone(), value.clone());
                longer
            };
            all = all.iter().flat_map(|so_far| values.iter().map(move |value| with(so_far, value))).collect();
        }
        all
    }
}

/// Returns the values in the style of hyperfine: `refcount = 10000, refformat = files`.
pub fn describe(values: &Values) -> String {
    values.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

/// Splits a list of values at its commas. As in hyperfine, a backslash makes a comma or a backslash part of a value;
/// before anything else, it stands for itself.
pub fn listed(list: &str) -> Vec<String> {
    let (mut values, mut letters) = (vec![String::new()], list.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter == ',' {
            values.push(String::new());
            continue;
        }
        let escaped = letters.next_if(|next| letter == '\\' && matches!(next, ',' | '\\'));
        if let Some(value) = values.last_mut() {
            value.push(escaped.unwrap_or(letter));
        }
    }
    values
}

/// Returns a list of one value, from which [`listed`] makes that value again.
pub fn list_of(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// Returns the number of the line, from 1, in which the last key of a path begins.
fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let (mut table, mut start) = (Some(whole.get_ref()), None);
    for name in path {
        let (key, value) = table?.iter().find(|(key, _)| key.get_ref().as_ref() == *name)?;
        start = Some(key.span().start);
        table = if let DeValue::Table(table) = value.get_ref() { Some(table) } else { None };
    }
    Some(text.get(..start?)?.matches('\n').count() + 1)
}

/// Checks the name and the values of a parameter. Because scripts see parameters as variables, their names must be in
/// lower case, which distinguishes them from existing variables.
fn check_parameter(name: &str, values: &[String]) -> Result<()> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    ensure!(
        name.bytes().all(known) && name.starts_with(|first: char| first.is_ascii_lowercase()),
        "'{name}' is no name of a parameter: it has lower case letters, digits and '_', a letter first"
    );
    ensure!(!values.is_empty(), "the parameter '{name}' has no values");
    ensure!(!values.iter().any(|value| value.contains('\0')), "a value of '{name}' has a NUL in it");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "build = 'true'\ncommand = 'true'\n";

    #[test]
    fn the_shipped_scenarios_are_read_and_differ_from_files_of_the_same_name() {
        for (name, _) in SHIPPED {
            let scenario = Scenario::find(name).unwrap();
            assert_eq!(scenario.name, name);
            assert!(!scenario.about.is_empty() && scenario.parameters.contains_key("refformat"), "{name}");
        }
    }

    #[test]
    fn every_combination_of_parameters_comes_once() {
        let text = format!("{LEAST}[parameters]\nrefformat = ['files', 'reftable']\nrefcount = ['1', '10']\n");
        let mut scenario = Scenario::parse("x", &text).unwrap();
        let all: Vec<String> = scenario.combinations().iter().map(describe).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], "refcount = 1, refformat = reftable");
        scenario.choose("refcount", vec!["7".to_owned()]).unwrap();
        assert_eq!(scenario.combinations().len(), 2);
        assert_eq!(Scenario::parse("x", LEAST).unwrap().combinations(), [Values::new()]);
    }

    #[test]
    fn a_case_has_variables_of_its_own() {
        let text = format!("{LEAST}[parameters]\njob = ['a', 'b']\n[cases.job]\na = {{ words = 'x y' }}\n");
        let scenario = Scenario::parse("x", &text).unwrap();
        let all: Vec<Values> = scenario.combinations().iter().map(|values| scenario.variables(values)).collect();
        assert_eq!(all, [Values::from([("words".to_owned(), "x y".to_owned())]), Values::new()]);
        let message =
            |from: &str, to: &str| format!("{:#}", Scenario::parse("x", &text.replace(from, to)).unwrap_err());
        assert_eq!(message("a = {", "c = {"), "line 6: 'cases.job.c': 'c' is no value of 'job'");
        assert_eq!(message("cases.job", "cases.jobs"), "line 5: 'cases.jobs' is of no parameter");
        assert_eq!(message("words =", "job ="), "line 6: 'cases.job.a.job' is a parameter too");
    }

    #[test]
    fn values_with_commas_and_backslashes_can_be_listed() {
        assert_eq!(listed(r"a,,b\,c,\d,\\,e"), ["a", "", "b,c", r"\d", r"\", "e"]);
        for value in ["", "b,c", r"\", r"\,", r"\\,,", r"\d+", "a"] {
            assert_eq!(listed(&list_of(value)), [value], "{value}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| format!("{:#}", Scenario::parse("x", text).unwrap_err());
        assert!(message("command = 'true'\n").contains("missing field `build`"));
        assert_eq!(message("build = 'true'\ncommand = ' '\n"), "line 2: 'command' is empty");
        let unknown = message(&format!("{LEAST}comand = 'x'\n"));
        assert!(unknown.contains("line 3") && unknown.contains("unknown field `comand`"), "{unknown}");
        let limit = message("# é\nbuild = \"\"\"\ntrue\n\"\"\"\ncommand = 'true'\nwall-limit = 0\n");
        assert!(limit.starts_with("line 6: 'wall-limit' is 0: "), "{limit}");
        let path = message(&format!("{LEAST}[parameters]\nPATH = ['x']\n"));
        assert!(path.starts_with("line 4: 'PATH' is no name of a parameter"), "{path}");
        assert_eq!(message(&format!("{LEAST}parameters.x = []\n")), "line 3: the parameter 'x' has no values");
        let mut scenario = Scenario::parse("x", LEAST).unwrap();
        let unknown = scenario.choose("refs", vec!["1".to_owned()]).unwrap_err().to_string();
        assert_eq!(unknown, "the scenario has no parameter 'refs', only: none");
        let missing = Scenario::find("no-such-scenario").unwrap_err().to_string();
        assert_eq!(missing, "no scenario 'no-such-scenario': name a file, or one of fetch, jobs, receive");
    }
}
