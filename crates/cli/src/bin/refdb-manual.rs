//! Writes shell completions and man pages of refdb, refdb-lab and refdb-serve into a folder. Commands and their options
//! come from the tables by which the programs parse them; refdb's options before the command are described here. Run
//! this program with `cargo run -p refdb-cli --features manual --bin refdb-manual -- DIR`.

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_complete::Shell;
use refdb_cli::{
    group::Group,
    options::{Opt, Value},
};
use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: refdb-manual DIR")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let mut program = program();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut program, "refdb", folder)?;
    }
    page(&program, &folder.join("refdb.1"))?;
    for command in refdb_cli::commands() {
        // clap requires names that live as long as the program, so they are leaked. The program is short-lived.
        let name: &'static str = format!("refdb-{}", command.name).leak();
        page(&subcommand(command).name(name), &folder.join(format!("{name}.1")))?;
    }
    for group in refdb_cli::groups() {
        let name: &'static str = format!("refdb-{}", group.command.name).leak();
        page(&members(group).name(name), &folder.join(format!("{name}.1")))?;
        for (command, _) in group.members {
            let name: &'static str = format!("refdb-{}", command.words().collect::<Vec<_>>().join("-")).leak();
            page(&subcommand(command).name(name), &folder.join(format!("{name}.1")))?;
        }
    }
    // The pages of `refdb lab` and `refdb serve`, written above, are overwritten by those of the programs that these
    // commands start, which say more.
    program_beside("refdb-lab", refdb_lab::options::Options::command(), folder)?;
    program_beside("refdb-serve", refdb_serve::command(), folder)
}

/// Writes the completions and man pages of a program whose command line is parsed by clap itself.
fn program_beside(name: &str, command: Command, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = command.disable_help_subcommand(true);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, name, folder)?;
    }
    Ok(clap_mangen::generate_to(command, folder)?)
}

fn page(command: &Command, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(fs::write(path, page)?)
}

fn program() -> Command {
    let value = |name: &'static str, help: &'static str| Arg::new(name).long(name).num_args(1).help(help);
    Command::new("refdb")
        .version(env!("CARGO_PKG_VERSION"))
        .about("git's ref commands on refdb's engine")
        .arg(Arg::new("C").short('C').num_args(1).help("change to this folder first"))
        .arg(Arg::new("c").short('c').num_args(1).action(ArgAction::Append).help("set name=value in the configuration"))
        .arg(value("config-env", "name=variable: set name in the configuration to an environment variable's value"))
        .arg(value("git-dir", "the repository"))
        .arg(value("work-tree", "the working tree"))
        .arg(value("namespace", "the namespace of refs"))
        .arg(Arg::new("bare").long("bare").action(ArgAction::SetTrue).help("take the folder for a bare repository"))
        .subcommands(refdb_cli::commands().map(subcommand))
        .subcommands(refdb_cli::groups().map(members))
}

fn members(group: &'static Group) -> Command {
    let members = group.members.iter().map(|(command, _)| subcommand(command).name(command.last_word()));
    Command::new(group.command.name)
        .about(group.command.about)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .subcommands(members)
}

fn subcommand(command: &'static refdb_cli::options::Command) -> Command {
    let form =
        |form: &&str| format!("refdb {} {}", command.name, form.split_whitespace().collect::<Vec<_>>().join(" "));
    let synopsis = command.synopsis.iter().map(form).collect::<Vec<_>>().join("\n");
    Command::new(command.name)
        .about(command.about)
        .override_usage(synopsis)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(command.options.iter().flat_map(arguments))
        .arg(Arg::new("arguments").num_args(0..).value_name("ARGUMENT").hide(true))
}

/// Returns clap's arguments for the option and, if it can be negated, for its negation.
fn arguments(opt: &'static Opt) -> Vec<Arg> {
    let mut arg = Arg::new(opt.name).help(opt.help).hide(opt.hidden);
    if let Some(letter) = opt.short {
        arg = arg.short(char::from(letter));
    }
    if opt.is_long() {
        arg = arg.long(opt.name);
    }
    arg = match opt.value {
        Value::None => arg.action(ArgAction::SetTrue),
        Value::Required(value) => arg.num_args(1).value_name(value),
        Value::Optional(value) => arg.num_args(0..=1).require_equals(true).value_name(value),
        Value::UnlessLast(value) => arg.num_args(0..=1).value_name(value),
    };
    let mut found = vec![arg];
    if opt.negatable {
        let negated: &'static str = match opt.name.strip_prefix("no-") {
            Some(bare) => bare,
            None => format!("no-{}", opt.name).leak(),
        };
        found.push(Arg::new(negated).long(negated).action(ArgAction::SetTrue).hide(true));
    }
    found
}
