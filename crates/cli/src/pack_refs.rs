//! `refdb pack-refs`. See git-pack-refs(1).

use crate::{
    Invocation,
    failure::{FAILED, Failure, Result, is_too_large, message, say},
    options::{Command, Opt, Parser, Setting, Value, Word},
    output::Output,
    progress::Progress,
    session::{Session, before_locks},
};
use bstr::BString;
use refdb::{
    RefFormat,
    backend::{OptimizeOptions, OptimizePlan},
};

const ALL: Opt = Opt::flag("all", "pack all references instead of only tags");
const PRUNE: Opt = Opt::flag("prune", "remove the loose references that were packed (the default)");
const AUTO: Opt = Opt::flag("auto", "pack only if it is worthwhile");
const INCLUDE: Opt = Opt::flag("include", "pack references that match the pattern").takes(Value::Required("pattern"));
const EXCLUDE: Opt =
    Opt::flag("exclude", "do not pack references that match the pattern").takes(Value::Required("pattern"));
const DRY_RUN: Opt = Opt::flag("dry-run", "print what would be packed or compacted, without changing anything");

pub static COMMAND: Command = Command {
    program: "git",
    name: "pack-refs",
    about: "Pack heads and tags for efficient repository access",
    synopsis: &["[--all] [--no-prune] [--auto] [--include <pattern>] [--exclude <pattern>]"],
    options: &[ALL, PRUNE, AUTO, INCLUDE, EXCLUDE],
};

/// The command line of `refs optimize`, with an option that git does not have.
pub static REFS_OPTIMIZE: Command = Command {
    name: "refs optimize",
    about: "Pack references or compact tables, so that reading is fastest",
    options: &[ALL, PRUNE, AUTO, INCLUDE, EXCLUDE, DRY_RUN],
    ..COMMAND
};

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&COMMAND, invocation)
}

/// Runs `refs optimize`.
pub fn run_refs_optimize(invocation: &Invocation<'_>) -> Result<u8> {
    run_as(&REFS_OPTIMIZE, invocation)
}

fn run_as(command: &'static Command, invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, command)?;
    let (options, is_dry) = parse(command, invocation)?;
    if is_dry {
        return tell_plan(&session.store.plan_optimize(&options)?);
    }
    before_locks()?;
    let progress = Progress::start("Packing refs");
    let result = session.store.optimize(&options);
    progress.finish();
    match result {
        Ok(optimized) => {
            report_missing(&optimized.missing);
            Ok(0)
        }
        Err(error) if is_too_large(&error) => {
            say("error: ", &message![&error.to_string()]);
            Err(Failure::Error("unable to compact stack: entry too large".into(), FAILED))
        }
        // Git reports a stack that cannot be compacted with an error and exit code 255, unlike packed-refs.
        Err(error) if session.store.repository().ref_format() == RefFormat::Reftable => match Failure::from(error) {
            Failure::Fatal(text) => Err(Failure::Error(text, FAILED)),
            other => Err(other),
        },
        Err(error) => Err(error.into()),
    }
}

fn report_missing(names: &[BString]) {
    for name in names {
        say("error: ", &message![name, " does not point to a valid object!"]);
    }
}

/// Prints what would be done: a line for each ref or table, and one more if packed-refs would be rewritten.
fn tell_plan(plan: &OptimizePlan) -> Result<u8> {
    report_missing(&plan.missing);
    let mut output = Output::default();
    let lines = plan.pack.iter().map(|name| ("would pack ", name));
    for (what, name) in lines.chain(plan.compact.iter().map(|name| ("would compact ", name))) {
        output.buffer().extend_from_slice(what.as_bytes());
        output.buffer().extend_from_slice(name);
        output.buffer().push(b'\n');
        output.relieve()?;
    }
    if plan.rewrites_packed {
        output.buffer().extend_from_slice(b"would rewrite packed-refs\n");
    }
    output.flush()?;
    Ok(0)
}

/// Parses the options into what is to be packed, and whether that is only printed.
fn parse(command: &'static Command, invocation: &Invocation<'_>) -> Result<(OptimizeOptions, bool)> {
    let mut is_dry = false;
    let mut options = OptimizeOptions::new();
    let mut parser = Parser::new(command, invocation.words);
    while let Some(word) = parser.next_word()? {
        let Word::Option(opt, setting) = word else { return Err(command.wrong_use(None)) };
        let list = match opt.name {
            "all" => {
                options.all = setting.is_on();
                continue;
            }
            "prune" => {
                options.prune = setting.is_on();
                continue;
            }
            "auto" => {
                options.auto = setting.is_on();
                continue;
            }
            "dry-run" => {
                is_dry = setting.is_on();
                continue;
            }
            "include" => &mut options.include,
            "exclude" => &mut options.exclude,
            _ => opt.unread(),
        };
        match setting {
            Setting::Value(pattern) => list.push(pattern.into()),
            Setting::On | Setting::Off => list.clear(),
        }
    }
    Ok((options, is_dry))
}
