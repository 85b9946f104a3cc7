//! `refdb pack-refs`. See git-pack-refs(1).

use crate::{
    Invocation,
    failure::{Failure, Result, is_too_large, message, say},
    options::{Command, Opt, Parser, Setting, Value, Word},
    progress::Progress,
    session::{Session, before_locks},
};
use bstr::ByteSlice;
use refdb::{RefFormat, backend::OptimizeOptions};

/// The command line.
pub static COMMAND: Command = Command {
    program: "git",
    name: "pack-refs",
    about: "Pack heads and tags for efficient repository access",
    synopsis: &["[--all] [--no-prune] [--auto] [--include <pattern>] [--exclude <pattern>]"],
    options: &[
        Opt::flag("all", "pack all references, not only tags and those packed before"),
        Opt::flag("prune", "remove the loose references that were packed (the default)"),
        Opt::flag("auto", "pack only as far as it is worth while"),
        Opt::flag("include", "pack references that match the pattern").takes(Value::Required("pattern")),
        Opt::flag("exclude", "do not pack references that match the pattern").takes(Value::Required("pattern")),
    ],
};

/// Runs the command.
pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let options = parse(invocation)?;
    before_locks()?;
    let progress = Progress::start("Packing refs");
    let result = session.store.optimize(&options);
    progress.finish();
    match result {
        Ok(optimized) => {
            for name in &optimized.missing {
                say("error: ", &message![name, " does not point to a valid object!"]);
            }
            Ok(0)
        }
        Err(error) if is_too_large(&error) => {
            Err(Failure::Error("unable to compact stack: entry too large".into(), 255))
        }
        // Git reports a stack that cannot be compacted, unlike packed-refs, as an error that ends it with -1.
        Err(error) if session.store.repository().ref_format() == RefFormat::Reftable => match Failure::from(error) {
            Failure::Fatal(text) => Err(Failure::Error(text, 255)),
            other => Err(other),
        },
        Err(error) => Err(error.into()),
    }
}

fn parse(invocation: &Invocation<'_>) -> Result<OptimizeOptions> {
    let mut options =
        OptimizeOptions { all: false, prune: true, auto: false, include: Vec::new(), exclude: Vec::new() };
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        let Word::Option(opt, setting) = word else { return Err(COMMAND.wrong_use(None)) };
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
            "include" => &mut options.include,
            "exclude" => &mut options.exclude,
            _ => opt.unread(),
        };
        match setting {
            Setting::Value(pattern) => list.push(pattern.to_str_lossy().into_owned()),
            Setting::On | Setting::Off => list.clear(),
        }
    }
    Ok(options)
}
