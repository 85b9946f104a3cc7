//! What runs on a node: answers one line for each line that it is sent, until its serial line is closed.
//!
//! `NUMBER ENGINE GIT_DIR OPERATION ARGUMENT...`, separated by tabs, is done by that engine: a view that this process
//! keeps, JGit or `refdb serve` in a process that it keeps, or `git` or `refdb`, started for each operation.
//! `NUMBER shell - COMMAND` is a command for the node. The answer is `NUMBER ok TEXT` or `NUMBER error TEXT`.

use crate::{line::HELLO, served::Served};
use bstr::{BStr, ByteSlice};
use refdb::{Change, Edit, Error, Precondition, backend::OptimizeOptions, transaction::ObjectClass};
use refdb_refcache::{Batch, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::JGit;
use refdb_types::{HashKind, ObjectId, RefName, Target};
use std::{
    collections::HashMap,
    io::{BufRead, Write},
    path::Path,
    process::Command,
    sync::Arc,
};

type Answer = Result<String, String>;

/// Serves the line on stdin and stdout.
pub(crate) fn run() -> std::io::Result<()> {
    let mut engines = Engines::default();
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout());
    // An agent that was killed before may have left half a line.
    writeln!(stdout, "\n{HELLO}")?;
    stdout.flush()?;
    for line in stdin.lines() {
        let line = line?;
        let words: Vec<&str> = line.split('\t').collect();
        let answer = match &words[..] {
            [_, "shell", _, command] => shell(command),
            [_, engine, git_dir, operation, arguments @ ..] => engines.ask(engine, git_dir, operation, arguments),
            _ => Err(format!("what is '{line}'?")),
        };
        let (word, text) = match answer {
            Ok(text) => ("ok", text),
            Err(text) => ("error", text),
        };
        writeln!(stdout, "{}\t{word}\t{}", words[0], text.trim_end().replace('\n', " | "))?;
        stdout.flush()?;
    }
    Ok(())
}

#[derive(Default)]
struct Engines {
    views: HashMap<String, Arc<View>>,
    jgits: HashMap<String, JGit>,
    served: Option<Served>,
}

impl Engines {
    fn ask(&mut self, engine: &str, git_dir: &str, operation: &str, arguments: &[&str]) -> Answer {
        if operation == "close" {
            self.views.remove(git_dir);
            self.jgits.remove(git_dir);
            return Ok(String::new());
        }
        match engine {
            "view" => by_view(self.view(git_dir)?, operation, arguments),
            "jgit" => {
                let jgit = self.jgits.entry(git_dir.to_owned()).or_insert_with(|| JGit::open_dir(Path::new(git_dir)));
                by_jgit(jgit, operation, arguments)
            }
            "serve" => {
                if self.served.is_none() {
                    self.served = Some(Served::start()?);
                }
                by_server(self.served.as_ref().expect("it was started"), git_dir, operation, arguments)
            }
            program => by_program(program, git_dir, operation, arguments),
        }
    }

    fn view(&mut self, git_dir: &str) -> Result<&View, String> {
        if !self.views.contains_key(git_dir) {
            let views = Views::new(&ViewsSettings::default());
            let git = refdb_testkit::Git::find().program();
            let get = |key: &str| execute(Command::new(git).args(["-C", git_dir, "config", key]), "").ok();
            let trust = TrustSettings::from_config(&get).map_err(|error| error.to_string())?;
            let settings = ViewSettings::new().trust(trust);
            let view = views.open(Path::new(git_dir), &settings).map_err(|error| error.to_string())?;
            self.views.insert(git_dir.to_owned(), view);
        }
        Ok(&self.views[git_dir])
    }
}

fn by_view(view: &View, operation: &str, arguments: &[&str]) -> Answer {
    let text = |error: refdb_refcache::Error| error.to_string();
    match (operation, arguments) {
        ("get", [name]) => {
            let found = view.resolve(BStr::new(name)).map_err(text)?.found;
            Ok(found.and_then(|found| found.target.id()).map_or_else(|| "none".into(), |id| id.to_string()))
        }
        ("list", [prefix]) => {
            let options = refdb_refcache::ListOptions::new().prefixes(vec![(*prefix).into()]);
            let mut listing = view.list(&options).map_err(text)?;
            let mut words = Vec::new();
            while let Some(row) = listing.next().map_err(text)? {
                let refdb::TargetView::Direct(id) = row.target else { return Err(format!("{} is symbolic", row.name)) };
                words.push(format!("{} {id}", row.name));
            }
            Ok(words.join(" "))
        }
        ("swap", swaps) => outcome(view.commit(&batch(swaps).ok_or("a bad id")?)),
        // As Gerrit does, which has parsed the commits before.
        ("swap-commits", swaps) => {
            let batch = batch(swaps).ok_or("a bad id")?;
            let ids: Option<Vec<ObjectId>> = swaps.chunks(3).map(|swap| id(swap[2])).collect();
            let known = ids.ok_or("a bad id")?;
            outcome(view.commit(&known.into_iter().fold(batch, |batch, id| batch.knowing(id, ObjectClass::Commit))))
        }
        ("pack", []) => {
            let all = OptimizeOptions::new().all(true);
            view.optimize(&all).map(|_| String::new()).map_err(text)
        }
        _ => Err(format!("a view cannot {operation}")),
    }
}

fn outcome(result: refdb_refcache::Result<refdb_refcache::Outcome>) -> Answer {
    match result {
        Ok(_) => Ok("done".into()),
        Err(error) => match error.store() {
            Some(Error::Rejected(_) | Error::Lock(_) | Error::StackLocked(_)) => Ok(format!("refused: {error}")),
            _ => Err(error.to_string()),
        },
    }
}

fn batch(swaps: &[&str]) -> Option<Batch> {
    let edits: Option<Vec<Edit>> = swaps.chunks(3).map(|swap| edit(swap[0], swap[1], swap[2])).collect();
    edits.map(Batch::atomic)
}

fn id(hex: &str) -> Option<ObjectId> {
    ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).ok()
}

fn edit(name: &str, old: &str, new: &str) -> Option<Edit> {
    let (old, new) = (id(old)?, id(new)?);
    let change = if new.is_null() { Change::Delete } else { Change::Set(Target::Direct(new)) };
    let expected =
        if old.is_null() { Precondition::MustNotExist } else { Precondition::MustMatch(Target::Direct(old)) };
    Some(Edit::new(RefName::new(name).ok()?, change, expected))
}

fn by_jgit(jgit: &mut JGit, operation: &str, arguments: &[&str]) -> Answer {
    let id = |hex: &str| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).map_err(|error| error.to_string());
    match (operation, arguments) {
        ("get", [name]) => Ok(jgit.get(name)?.map_or_else(|| "none".into(), |found| found.oid.to_string())),
        ("swap", swaps) => {
            let edits: Result<Vec<_>, String> =
                swaps.chunks(3).map(|swap| Ok((swap[0], id(swap[1])?, id(swap[2])?))).collect();
            let results = jgit.batch(true, &edits?)?;
            let done = results.iter().all(|result| result == "OK");
            Ok(if done { "done".into() } else { format!("refused: {}", results.join(" ")) })
        }
        ("pack", []) => jgit.pack().map(|()| String::new()),
        _ => Err(format!("JGit cannot {operation}")),
    }
}

fn by_server(served: &Served, git_dir: &str, operation: &str, arguments: &[&str]) -> Answer {
    match (operation, arguments) {
        ("get", [name]) => {
            let refs = served.refs(git_dir, name)?;
            Ok(refs.into_iter().find(|(other, _)| other == name).map_or_else(|| "none".into(), |(_, id)| id))
        }
        ("list", [prefix]) => {
            let rows: Vec<String> =
                served.refs(git_dir, prefix)?.iter().map(|(name, id)| format!("{name} {id}")).collect();
            Ok(rows.join(" "))
        }
        ("swap", swaps) => {
            let said = served.push(git_dir, swaps)?;
            let refused: Vec<&str> =
                said.iter().filter_map(|line| line.strip_prefix("ng ")).map(str::trim_end).collect();
            match said.first().map(|line| line.trim_end()) {
                Some("unpack ok") if refused.is_empty() => Ok("done".into()),
                // Other reasons do not say that nothing was changed.
                Some("unpack ok") if refused.iter().all(|reason| is_about_the_value(reason)) => {
                    Ok(format!("refused: {}", refused.join(" ")))
                }
                _ => Err(said.concat()),
            }
        }
        ("pack", []) => by_program(&refdb_testkit::Git::find().program().display().to_string(), git_dir, "pack", &[]),
        _ => Err(format!("a server cannot {operation}")),
    }
}

/// Whether the server's reason for refusing a ref proves that the ref had another value.
fn is_about_the_value(reason: &str) -> bool {
    ["incorrect old value provided", "reference already exists", "reference does not exist"]
        .iter()
        .any(|class| reason.ends_with(class))
}

fn by_program(program: &str, git_dir: &str, operation: &str, arguments: &[&str]) -> Answer {
    let run = |words: &[&str], input: String| execute(Command::new(program).arg("-C").arg(git_dir).args(words), &input);
    match (operation, arguments) {
        ("get", [name]) => {
            let all = run(&["for-each-ref", "--format=%(objectname)", name], String::new())?;
            Ok(if all.is_empty() { "none".into() } else { all })
        }
        ("list", [prefix]) => {
            let all = run(&["for-each-ref", "--format=%(refname) %(objectname)", prefix], String::new())?;
            Ok(all.replace('\n', " "))
        }
        ("swap", swaps) => {
            let lines = swaps.chunks(3).map(|swap| format!("update {} {} {}\n", swap[0], swap[2], swap[1]));
            let input: String = std::iter::once("start\n".to_owned()).chain(lines).chain(["commit\n".into()]).collect();
            match run(&["update-ref", "--stdin"], input) {
                Ok(_) => Ok("done".into()),
                Err(said) if said.contains("cannot lock ref") || said.contains("Unable to create") => {
                    Ok(format!("refused: {said}"))
                }
                Err(said) => Err(said),
            }
        }
        ("pack", []) => run(&["pack-refs", "--all"], String::new()),
        _ => Err(format!("{program} cannot {operation}")),
    }
}

fn shell(command: &str) -> Answer {
    execute(Command::new("bash").arg("-c").arg(command), "")
}

fn execute(command: &mut Command, input: &str) -> Answer {
    use std::process::Stdio;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let stdout = output.stdout.trim_end().to_str_lossy().into_owned();
    if output.status.success() { Ok(stdout) } else { Err(format!("{stdout}{}", output.stderr.to_str_lossy())) }
}
