//! `refdb refs`. See git-refs(1).

mod change;
mod exists;
mod fsck;
mod locks;
mod migrate;
mod rename;
mod settle;
mod verify;

use crate::{for_each_ref, group::Group, options::Command, pack_refs};

/// The subcommands of `refs`.
pub static GROUP: Group = Group {
    command: Command {
        program: "git",
        name: "refs",
        about: "Low-level access to references",
        synopsis: &[],
        options: &[],
    },
    members: &[
        (&migrate::COMMAND, migrate::run),
        (&verify::COMMAND, verify::run),
        (&for_each_ref::REFS_LIST, for_each_ref::run_refs_list),
        (&exists::COMMAND, exists::run),
        (&pack_refs::REFS_OPTIMIZE, pack_refs::run_refs_optimize),
        (&change::CREATE, change::create),
        (&change::DELETE, change::delete),
        (&change::UPDATE, change::update),
        (&rename::COMMAND, rename::run),
        (&settle::COMMAND, settle::run),
        (&locks::COMMAND, locks::run),
    ],
    otherwise: None,
};
