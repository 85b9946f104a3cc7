//! The settings of git-config(1) for receiving a push: `receive.*`, `transfer.*` and a few others.

use crate::{HiddenRefs, ProcReceive, WorkLimits};
use bstr::ByteSlice;
use refdb::config::{Config, ConfigError, Value};

/// The settings of a repository that [`serve`](crate::serve()) and [`delegation_reason`](crate::delegation_reason())
/// obey. Git's programs, which `serve` runs, read further settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `receive.denyDeletes`.
    pub deny_deletes: bool,
    /// `receive.denyNonFastForwards`.
    pub deny_non_fast_forwards: bool,
    /// `receive.denyCurrentBranch`.
    pub deny_current: Deny,
    /// `receive.denyDeleteCurrent`.
    pub deny_delete_current: Deny,
    /// `receive.fsckObjects`, or `transfer.fsckObjects` if that is unset.
    pub fsck: bool,
    /// Whether `receive.fsck.*` is set.
    pub fsck_messages: bool,
    /// `receive.unpackLimit`, or `transfer.unpackLimit` if that is unset or negative, or else 100. A pack with fewer
    /// objects is unpacked into loose objects; others are kept as packs.
    pub unpack_limit: u32,
    /// `receive.maxInputSize`, the largest accepted pack in bytes; 0 means no limit. A negative number refuses every
    /// pack that has objects.
    pub max_input_bytes: i64,
    /// `receive.keepAlive`: the seconds of silence of a program, unless it is reading the pack, after which a keepalive
    /// packet is sent; 0 sends none.
    pub keep_alive_seconds: u32,
    /// `receive.autogc`.
    pub auto_gc: bool,
    /// `receive.updateServerInfo`.
    pub update_server_info: bool,
    /// `receive.advertiseAtomic`.
    pub atomic: bool,
    /// `receive.advertisePushOptions`.
    pub push_options: bool,
    /// `transfer.advertiseSID`.
    pub session_id: bool,
    /// `repack.useDeltaBaseOffset`.
    pub ofs_delta: bool,
    /// Whether `receive.certNonceSeed` is set.
    pub signed_pushes: bool,
    /// `receive.procReceiveRefs`.
    pub proc_receive: ProcReceive,
    /// `transfer.hideRefs` and `receive.hideRefs`.
    pub hidden: HiddenRefs,
    /// `core.maxTreeDepth`: the number of levels to which trees may be nested.
    pub tree_depth: i32,
    /// `refdb.receiveReadLimit` in bytes: larger commits, trees and tags of a push are left to git, although some
    /// checks read up to 1 MiB even if this limit is lower.
    pub read_max_bytes: u64,
    /// `refdb.receiveMemoryLimit` and `refdb.receiveTimeLimit`: what each of the git programs that receive and check a
    /// push may take.
    pub work_limits: WorkLimits,
}

/// Git's default for `core.maxTreeDepth`.
const TREE_DEPTH: i32 = 2048;

/// The default limits: several times what the largest measured honest pushes took (docs/operating/receive-pack.md), and
/// low enough that a crafted pack cannot keep a server busy for days.
const WORK_LIMITS: WorkLimits = WorkLimits { memory_bytes: 8 << 30, seconds: 4 * 60 * 60 };

/// The default of `refdb.receiveReadLimit`: commits and tags of more than some MiB are hardly ever honest, and a tree
/// of this size has a million entries.
const READ_MAX_BYTES: u64 = 32 << 20;

/// How to treat a push that updates or deletes the current branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deny {
    /// The setting is unset: refuse the command and tell the user how to allow it.
    Unconfigured,
    /// Accept the command.
    Ignore,
    /// Accept the command and warn the user.
    Warn,
    /// Refuse the command.
    Refuse,
    /// As `receive.denyCurrentBranch`: update the working tree too. Pushes to such a repository are delegated to git.
    /// As `receive.denyDeleteCurrent`: refuse the command.
    UpdateInstead,
}

impl Settings {
    /// Reads the settings from a repository's configuration.
    ///
    /// # Errors
    ///
    /// Fails on the first value that is not valid for its setting, with git's message.
    pub fn of(config: &Config) -> Result<Self, ConfigError> {
        let mut settings = Settings {
            deny_deletes: false,
            deny_non_fast_forwards: false,
            deny_current: Deny::Unconfigured,
            deny_delete_current: Deny::Unconfigured,
            fsck: false,
            fsck_messages: false,
            unpack_limit: 100,
            max_input_bytes: 0,
            keep_alive_seconds: 5,
            auto_gc: true,
            update_server_info: false,
            atomic: true,
            push_options: false,
            session_id: false,
            ofs_delta: true,
            signed_pushes: false,
            proc_receive: ProcReceive::default(),
            hidden: HiddenRefs::default(),
            tree_depth: TREE_DEPTH,
            read_max_bytes: READ_MAX_BYTES,
            work_limits: WORK_LIMITS,
        };
        let mut preferred = Preferred::default();
        for value in config.iter() {
            settings.set(&value, &mut preferred)?;
        }
        settings.fsck = preferred.receive_fsck.or(preferred.transfer_fsck).unwrap_or(settings.fsck);
        let limits = [preferred.receive_limit, preferred.transfer_limit];
        if let Some(limit) = limits.into_iter().flatten().find_map(|limit| u32::try_from(limit).ok()) {
            settings.unpack_limit = limit;
        }
        Ok(settings)
    }

    fn set(&mut self, value: &Value<'_>, preferred: &mut Preferred) -> Result<(), ConfigError> {
        match value.key.as_bytes() {
            b"receive.denydeletes" => self.deny_deletes = value.boolean()?,
            b"receive.denynonfastforwards" => self.deny_non_fast_forwards = value.boolean()?,
            b"receive.denycurrentbranch" => self.deny_current = Deny::of(value)?,
            b"receive.denydeletecurrent" => self.deny_delete_current = Deny::of(value)?,
            b"receive.fsckobjects" => preferred.receive_fsck = Some(value.boolean()?),
            b"transfer.fsckobjects" => preferred.transfer_fsck = Some(value.boolean()?),
            b"receive.unpacklimit" => preferred.receive_limit = Some(value.int()?),
            b"transfer.unpacklimit" => preferred.transfer_limit = Some(value.int()?),
            b"receive.maxinputsize" => self.max_input_bytes = value.long()?,
            b"receive.keepalive" => self.keep_alive_seconds = u32::try_from(value.int()?).unwrap_or(0),
            b"receive.autogc" => self.auto_gc = value.boolean()?,
            b"receive.updateserverinfo" => self.update_server_info = value.boolean()?,
            b"receive.advertiseatomic" => self.atomic = value.boolean()?,
            b"receive.advertisepushoptions" => self.push_options = value.boolean()?,
            b"transfer.advertisesid" => self.session_id = value.boolean()?,
            b"repack.usedeltabaseoffset" => self.ofs_delta = value.boolean()?,
            b"receive.certnonceseed" => self.signed_pushes = true,
            b"receive.procreceiverefs" => self.proc_receive.add(value.text()?),
            b"receive.hiderefs" | b"transfer.hiderefs" => self.hidden.add(value.text()?),
            b"core.maxtreedepth" => self.tree_depth = value.int()?,
            b"refdb.receivereadlimit" => self.read_max_bytes = u64::try_from(value.long()?).unwrap_or(0),
            b"refdb.receivememorylimit" => self.work_limits.memory_bytes = u64::try_from(value.long()?).unwrap_or(0),
            b"refdb.receivetimelimit" => self.work_limits.seconds = u64::try_from(value.long()?).unwrap_or(0),
            key => self.fsck_messages |= key.starts_with(b"receive.fsck."),
        }
        Ok(())
    }
}

/// Settings for which `receive.*` takes precedence over `transfer.*`, whichever comes last in the configuration.
#[derive(Default)]
struct Preferred {
    receive_fsck: Option<bool>,
    transfer_fsck: Option<bool>,
    receive_limit: Option<i32>,
    transfer_limit: Option<i32>,
}

impl Deny {
    fn of(value: &Value<'_>) -> Result<Self, ConfigError> {
        let text = value.raw.unwrap_or_default().to_ascii_lowercase();
        Ok(match &text[..] {
            b"ignore" => Deny::Ignore,
            b"warn" => Deny::Warn,
            b"refuse" => Deny::Refuse,
            b"updateinstead" => Deny::UpdateInstead,
            _ if value.boolean()? => Deny::Refuse,
            _ => Deny::Ignore,
        })
    }
}
