//! The jobs as the lab's scenario `jobs` describes them: the file of the scenario says from which refs each job starts
//! and which command it runs, for the lab and for this harness alike.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use refdb_lab::scenario::{Scenario, Values};

use crate::{
    job::{Input, Job, Reach, Step},
    place::Disk,
    push::Push,
    seed::{Commits, Content, Format, change},
    size::Size,
};

/// All jobs of the scenario, for one size.
#[derive(Debug)]
pub struct Described {
    cases: BTreeMap<String, Values>,
    size: Size,
    /// The variables of the commands, except for those whose values depend on the format.
    variables: Vec<(&'static str, String)>,
}

impl Described {
    /// Reads the scenario.
    pub fn new(size: Size, commits: &Commits) -> Result<Described> {
        let cases = Scenario::find("jobs")?.cases.remove("job").context("the scenario 'jobs' has no jobs")?;
        // In the folder of the change in the middle, ten changes of three refs each lie behind a prefix, if there are
        // enough changes.
        let number = 100_000 + size.big / 2 / 3;
        let prefix = |next: usize| format!("refs/changes/{:02}/{}*/*", number % 100, number / 1000 + next);
        let id = commits.first().context("there are commits")?.clone();
        let variables = vec![
            ("$one", change(size.big / 2)),
            ("$id", id),
            ("$first", prefix(0)),
            ("$second", prefix(1)),
            ("$third", prefix(2)),
        ];
        Ok(Described { cases, size, variables })
    }

    /// The job that the scenario calls `name`, called `id` here, with one step of this title and without targets.
    pub fn job(&self, id: &'static str, name: &str, format: Format, title: String) -> Result<Job> {
        let case = self.cases.get(name).with_context(|| format!("the scenario 'jobs' has no job '{name}'"))?;
        let said = |key: &str| case.get(key).map_or("", String::as_str);
        let (args, input) = (self.words(said("arguments"), format), self.input(said("input"))?);
        let step = Step { title, args, input, reach: Reach::default(), floor: None };
        let content = match said("refs") {
            "none" => Content::Empty,
            "old" => Content::Existing,
            "branches" => Content::Branches,
            "changes" => Content::Big,
            other => bail!("the job '{name}' starts from unknown refs: '{other}'"),
        };
        let reflogs = said("reflogs") == "true";
        Ok(Job { id, format, content, disk: Disk::Tmpfs, reflogs, reads: false, judged: 1, steps: vec![step] })
    }

    /// The input that the scenario calls `name`; `None` if `name` is empty.
    fn input(&self, name: &str) -> Result<Option<Input>> {
        let Size { edits, bulk, hooked, .. } = self.size;
        Ok(Some(match name {
            "" => return Ok(None),
            "create" | "create-again" => Input::Create(edits),
            "create-distinct" => Input::CreateDistinct(edits),
            "create-all" => Input::Create(bulk),
            "push" => Input::Push(Push::Create(edits)),
            "push-few" => Input::Push(Push::Create(hooked)),
            "push-forward" => Input::Push(Push::Forward),
            "push-tip" => Input::Push(Push::AtTip),
            "push-old" => Input::Push(Push::AtOld),
            "push-large" => Input::Push(Push::Large),
            other => bail!("the scenario 'jobs' has an unknown input, '{other}'"),
        }))
    }

    /// The words of a command line in which double quotes are the only quotes, with its variables replaced.
    fn words(&self, text: &str, format: Format) -> Vec<String> {
        let other = if format == Format::Files { Format::Reftable } else { Format::Files };
        let other = ("$other", other.name().to_owned());
        split(text)
            .into_iter()
            .map(|word| {
                let all = self.variables.iter().chain([&other]);
                all.fold(word, |word, (name, value)| word.replace(name, value))
            })
            .collect()
    }
}

/// The words of a command line, without its double quotes.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for letter in text.chars() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_a_shell_would_see() {
        assert_eq!(split("show-ref  --verify \"a b\" \"\" \"x\"y"), ["show-ref", "--verify", "a b", "", "xy"]);
        let jobs = Described::new(Size::SMALL, &vec!["1234".to_owned()]).unwrap();
        let words = |name: &str, format| {
            let job = jobs.job("x", name, format, String::new()).unwrap();
            job.steps[0].args.clone()
        };
        assert_eq!(words("set", Format::Files), ["update-ref", "refs/changes/16/100116/3", "1234"]);
        assert_eq!(words("migrate", Format::Reftable), ["refs", "migrate", "--ref-format=files"]);
        for name in jobs.cases.keys() {
            assert!(!words(name, Format::Files).concat().contains('$'), "{name} has an unknown variable");
        }
    }
}
