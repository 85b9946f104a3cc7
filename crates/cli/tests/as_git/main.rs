//! Command lines that git and refdb must answer alike, with the same output, messages and exit code; and some that only
//! refdb has.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod branch;
mod broken_refs;
mod chains;
mod check_ref_format;
mod common;
mod dates;
mod endings;
mod for_each_ref;
mod for_each_ref_asked;
mod for_each_ref_rare;
mod global_options;
mod hook_settings;
mod log_size;
mod long_names;
mod messages;
mod names;
mod pack_refs;
mod pictures;
mod reflog;
mod reflog_expire;
mod reflog_names;
mod reflog_show;
mod refs;
mod refs_change;
mod refs_rename;
mod refs_verify;
mod replaced;
mod show_ref;
mod symbolic_ref;
mod tag;
mod update_ref;
mod update_ref_stdin;
mod words;
