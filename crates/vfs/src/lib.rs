//! Files, locks, rename, sync and mappings: the operations with which refdb reads and changes what is on a disk.
//!
//! [`Fs`] performs the operations. Those that visibly change a disk are shown, as an [`Op`], to an optional [`IoHook`],
//! which may record, tear or refuse them. With a hook, tests can kill a process at each step or fill a disk while they
//! run the code that runs in production. [`Lock`] is git's `FILE.lock` protocol. [`interrupt`] turns a signal into an
//! ordinary error, so that the destructors of guards run.

mod abort;
mod asked;
mod descriptors;
mod ended_boot;
mod error;
mod file;
mod filling;
mod folder;
mod fs;
mod growing;
mod heir;
pub mod interrupt;
mod io_hooks;
mod kind;
mod lock;
mod mapping;
mod nearby;
mod network;
mod op;
mod path;
mod planted;
mod queue;
mod server_handle;
mod signature;
mod spares;
mod stat;
mod storage;
mod syncs;
mod together;
mod tree;
mod whole_file;

pub use asked::AskingOnce;
pub use descriptors::{Descriptors, descriptors_max};
pub use ended_boot::{EndedBoot, EndedBootError};
pub use error::{Error, Result, again_if_lost};
pub use file::File;
pub use filling::{Filled, Filler};
pub use folder::Folder;
pub use fs::{EntryKind, Fs, effective_user, host_name};
pub use growing::{Growing, prefetch};
pub use heir::RecoveryHandler;
#[doc(hidden)]
pub use lock::{Acquired, give_up_content, is_content_given_up};
pub use lock::{DetachedLock, Lock, LockError, LockLook, LockSource, LockState, LockTimeout, Removal, StaleLock};
pub use mapping::Mapping;
pub use nearby::Nearby;
pub use op::{IoHook, LookUp, Op, Verdict};
pub use path::plain_path;
#[doc(hidden)]
pub use planted::planted;
#[doc(hidden)]
pub use queue::{Channel, Crowd, QueueHead, Received, Relay, Turn, monotonic_nanos, writer_terms};
pub use server_handle::ServerHandle;
pub use signature::{BatchId, Signature, boot_id, slot_start};
pub use stat::{Stat, now_nanos};
pub use storage::{Mount, Storage};
