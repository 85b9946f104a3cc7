//! A run, from making its folder to the verdict.

use super::{
    Settings,
    facts::{self, Conclusion, Facts},
    host::{Host, Trouble},
    load::{self, CLIENTS},
    repository::{self, Format, RunFolder},
    scenes, start,
    verdict::{Findings, Verdict},
};
use crate::{
    failure::{Failure, Result, fatal},
    output::Output,
};
use refdb_vfs::interrupt;
use std::{path::Path, thread};

type Tried<T> = std::result::Result<T, Trouble>;

/// Tests `dir` from this host and all others, and prints the verdict.
pub(super) fn coordinate(settings: &Settings, dir: &Path) -> Result<u8> {
    let run = match RunFolder::make(dir) {
        Ok(run) => run,
        Err(error) => return fatal![error.to_string()],
    };
    let tried = test(settings, &run);
    if interrupt::received().is_some() {
        // If a signal has arrived, it may be the reason for whatever failed.
        return Err(Failure::Interrupted);
    }
    let verdict = match tried {
        Ok(verdict) => verdict,
        Err(Trouble::Interrupted) => return Err(Failure::Interrupted),
        Err(trouble) => Verdict::NotTested(trouble.to_string()),
    };
    print(&verdict.text())?;
    Ok(verdict.exit_code())
}

fn test(settings: &Settings, run: &RunFolder) -> Tried<Verdict> {
    let hosts = start::all(settings, run)?;
    let facts = hosts.iter().map(|host| facts_of(host, run)).collect::<Tried<Vec<_>>>()?;
    facts.iter().try_for_each(|facts| tell(&facts.text()))?;
    match facts::conclude(&facts) {
        Some(Conclusion::NotTested(why)) => return Ok(Verdict::NotTested(why)),
        Some(Conclusion::Unsafe(why)) => return Ok(Verdict::Unsafe(why)),
        None => {}
    }
    let findings = |(at, format): (usize, &Format)| (Findings::new(*format), at * CLIENTS);
    let mut all: Vec<_> = settings.formats.iter().enumerate().map(findings).collect();
    let tried = refusals(run, &hosts, &mut all)
        .and_then(|()| play(run, &hosts, &mut all))
        .and_then(|()| bear(run, &hosts, settings, &mut all));
    end(tried, &mut all)?;
    let mut worst = Verdict::Safe;
    for (findings, _) in &all {
        tell(&findings.text())?;
        let verdict = findings.verdict();
        if verdict == Verdict::Safe {
            tell(&format!("{}: safe\n", findings.format))?;
        }
        worst = worst.max(verdict);
    }
    Ok(worst)
}

fn facts_of(host: &Host, run: &RunFolder) -> Tried<Facts> {
    let told = host.ask(0, &["facts", &run.path.to_string_lossy()]).map_err(|why| host.trouble(why))?;
    Ok(Facts::parse(&host.label, &told))
}

/// Notes in the findings that the test ended early if something wrong was seen before, because that still counts.
///
/// # Errors
///
/// Fails with the trouble that ended the test if nothing wrong was seen or if that trouble is a signal, and with a
/// trouble of its own if standard output cannot be written.
fn end(tried: Tried<()>, all: &mut [(Findings, usize)]) -> Tried<()> {
    match tried {
        Ok(()) => Ok(()),
        Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
        Err(trouble) if all.iter().any(|(findings, _)| findings.has_fault()) => {
            let why = format!("the test ended early: {trouble}");
            tell(&format!("{why}\n"))?;
            all.iter_mut().for_each(|(findings, _)| findings.untested.push(why.clone()));
            Ok(())
        }
        Err(trouble) => Err(trouble),
    }
}

/// Notes for each format, and each host on which refdb refuses to write refs of that format, why it does.
fn refusals(run: &RunFolder, hosts: &[Host], all: &mut [(Findings, usize)]) -> Tried<()> {
    for (findings, _) in all {
        let path = run.path.join(format!("try-{}.git", findings.format));
        repository::make(&path, findings.format).map_err(Trouble::Here)?;
        for host in hosts {
            let name = format!("refs/heads/by-{}", host.number);
            let said = host.ask(0, &["try", &path.to_string_lossy(), &name]).map_err(|why| host.trouble(why))?;
            if let Some(why) = said.strip_prefix("refuses: ") {
                findings.losses.push(format!("refdb refuses to write on {}: {why}", host.label));
            }
        }
    }
    Ok(())
}

/// Plays the scenes in all formats at once, between this host and each other one, both ways. What went wrong before the
/// trouble that ended a part of the test is kept.
fn play(run: &RunFolder, hosts: &[Host], all: &mut [(Findings, usize)]) -> Tried<()> {
    let own = &hosts[0];
    let played = thread::scope(|scope| {
        let mut players = Vec::new();
        for (at, (findings, first)) in all.iter().enumerate() {
            let (format, path) = (findings.format, &run.path);
            for way in 0..CLIENTS {
                let player = scope.spawn(move || {
                    let mut wrong = Vec::new();
                    let ended = hosts[1..].iter().try_for_each(|other| {
                        let pair = if way == 0 { [own, other] } else { [other, own] };
                        scenes::play_all(path, format, pair, first + way, &mut wrong)
                    });
                    (wrong, ended)
                });
                players.push((at, player));
            }
        }
        let ended =
            players.into_iter().map(|(at, player)| (at, player.join().unwrap_or_else(|_| (Vec::new(), Err(fault())))));
        ended.collect::<Vec<_>>()
    });
    let mut counts = vec![0; all.len()];
    let mut trouble = None;
    for (at, (wrong, ended)) in played {
        counts[at] += wrong.len();
        all[at].0.add_scenes(wrong);
        trouble = trouble.or(ended.err());
    }
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    let played = scenes::SCENES.len() * CLIENTS * (hosts.len() - 1);
    for ((findings, _), wrong) in all.iter().zip(counts) {
        tell(&format!("{}: {} of {played} scenes ended as they must\n", findings.format, played - wrong))?;
    }
    Ok(())
}

/// Runs the load in all formats at once, and judges its histories, also those of loads that ended early.
fn bear(run: &RunFolder, hosts: &[Host], settings: &Settings, all: &mut [(Findings, usize)]) -> Tried<()> {
    for (findings, _) in all.iter() {
        repository::make(&path_of_load(run, findings.format), findings.format).map_err(Trouble::Here)?;
    }
    let histories: Vec<_> = thread::scope(|scope| {
        let start = |(findings, first): &(Findings, usize)| {
            let (path, first) = (path_of_load(run, findings.format).to_string_lossy().into_owned(), *first);
            scope.spawn(move || load::run(hosts, &path, first, settings.time))
        };
        let loads: Vec<_> = all.iter().map(start).collect();
        loads.into_iter().map(|load| load.join().map_err(|_| fault())).collect()
    });
    let labels: Vec<&str> = hosts.iter().map(|host| host.label.as_str()).collect();
    let mut trouble = None;
    for ((findings, _), history) in all.iter_mut().zip(histories) {
        let mut history = match history {
            Ok(history) => history,
            Err(why) => {
                trouble = trouble.or(Some(why));
                continue;
            }
        };
        findings.add_load(&history, &labels);
        if let Some(why) = history.trouble.take() {
            trouble = trouble.or(Some(why));
            continue;
        }
        let (reads, writes) = history.counts.values().fold((0, 0), |sum, host| (sum.0 + host.0, sum.1 + host.1));
        let (format, refused, unknown) = (findings.format, history.refused, history.unknown);
        let seconds = settings.time.as_secs();
        tell(&format!(
            "{format}: load of {seconds} s: {reads} reads, {writes} writes, {refused} refused, {unknown} unknown\n"
        ))?;
    }
    trouble.map_or(Ok(()), Err)
}

fn path_of_load(run: &RunFolder, format: Format) -> std::path::PathBuf {
    run.path.join(format!("load-{format}.git"))
}

/// Returns the trouble that a panic of a thread means.
fn fault() -> Trouble {
    Trouble::Host("a fault in refdb ended the test".into())
}

fn tell(text: &str) -> Tried<()> {
    print(text).map_err(|_| Trouble::Host("standard output cannot be written".into()))
}

fn print(text: &str) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(text.as_bytes());
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_before_the_test_ended_early_is_not_forgotten() {
        let full = || refdb_vfs::Fs::real().at(Path::new("/nonexistent")).expect_err("there is no such folder");
        let troubles = || [Trouble::Host("there is gone".into()), Trouble::Here(full())];
        for trouble in troubles() {
            let mut nothing = [(Findings::new(Format::Files), 0)];
            assert!(end(Err(trouble), &mut nothing).is_err(), "nothing was seen");
        }
        for trouble in troubles() {
            let mut seen = [(Findings::new(Format::Files), 0), (Findings::new(Format::Reftable), 2)];
            seen[0].0.losses.push("an update was lost".into());
            assert!(end(Err(trouble), &mut seen).is_ok());
            assert_eq!(seen[0].0.verdict().text(), "unsafe: files: an update was lost\n");
            assert_eq!(seen[1].0.verdict().exit_code(), 2, "the other format was not tested fully");
        }
        let mut seen = [(Findings::new(Format::Files), 0)];
        seen[0].0.losses.push("an update was lost".into());
        assert!(matches!(end(Err(Trouble::Interrupted), &mut seen), Err(Trouble::Interrupted)));
    }
}
