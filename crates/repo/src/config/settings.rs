//! The settings that the engine reads from the configuration, collected in one pass.

use super::{BadSetting, Config, ConfigError, GitPacks, Level, Value};
use crate::{environment::Environment, log_policy::LogPolicy};
use bstr::ByteSlice;
use refdb_vfs::LockTimeout;
use std::path::PathBuf;

/// The settings of the engine. Where a timeout or a number of `reftable.*` is `None`, the engine uses its own default,
/// which may differ from git's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `core.logAllRefUpdates`.
    pub log_policy: LogPolicy,
    /// `core.sharedRepository`.
    pub shared_repository: SharedRepository,
    /// How refs are brought to stable storage: `core.fsync` and `core.fsyncMethod`.
    pub fsync: Fsync,
    /// A bad setting among those that only writers need, if there is one: `refdb.unsafeStorage`, and where refs are
    /// files also the lock timeouts, `core.sharedRepository`, `refdb.smallBatches` and `refdb.looseRefs`. Nothing can
    /// be locked then.
    pub bad_for_writers: Option<BadSetting>,
    /// `core.filesRefLockTimeout`; git's default is 100 ms.
    pub files_ref_lock_timeout: Option<LockTimeout>,
    /// `core.packedRefsTimeout`. Git's default is 1 s.
    pub packed_refs_timeout: Option<LockTimeout>,
    /// `refdb.smallBatches`: whether atomic batches of a few refs may be written as loose files, if refs are stored as
    /// files.
    pub loose_batches: bool,
    /// `refdb.unsafeStorage`: whether refs may be written on a network file system that may lose updates.
    pub may_be_unsafe: bool,
    /// The settings that let git pack refs on its own, if they are the reason why `refdb.smallBatches=auto` does not
    /// write loose files.
    pub git_packs: Option<GitPacks>,
    /// `refdb.looseRefs`: the number of loose refs at which a server packs them in the background, if it may write
    /// [loose batches](Self::loose_batches). `None` for never, for an invalid value, and where refs are not files.
    pub loose_refs: Option<usize>,
    /// `reftable.*`.
    pub reftable: ReftableSettings,
    /// `core.hooksPath`.
    pub hooks_path: Option<PathBuf>,
    /// `core.warnAmbiguousRefs`, or the message about its bad value. Git reads it only when it resolves a short name.
    pub warn_ambiguous_refs: Result<bool, String>,
    /// `core.ignoreCase`: whether names that differ only in case are the same file.
    pub ignore_case: bool,
    /// Git's warnings about values that it does not know, without the prefix `warning: `.
    pub warnings: Vec<String>,
}

/// How refs are brought to stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fsync {
    /// Not at all, which is git's default.
    No,
    /// With fsync(2).
    Fsync,
    /// By writing the data to the disk without flushing the disk's own cache.
    WriteoutOnly,
}

/// The settings `reftable.*`; `None` where the default applies.
#[derive(Clone, Debug)]
pub struct ReftableSettings {
    /// The size of a block in bytes.
    pub block_size: Option<u32>,
    /// The size of a block in bytes according to the configuration files alone, without `-c` and the environment. A
    /// program that rewrites the tables later uses this size, unless it is given another one.
    pub lasting_block_size: Option<u32>,
    /// The greatest number of records from one restart point to the next.
    pub restart_interval: Option<u16>,
    /// Whether the index by object id is written.
    pub index_objects: bool,
    /// How many times as large as the next newer table each table should be.
    pub geometric_factor: Option<u8>,
    /// How long to wait for `tables.list.lock`. Git's default is 100 ms.
    pub lock_timeout: Option<LockTimeout>,
}

/// `core.sharedRepository`: who besides the owner may use the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedRepository {
    /// The permissions that the umask allows.
    Umask,
    /// These permission bits in addition to what the umask allows.
    AtLeast(u32),
    /// These permission bits instead of what the umask allows.
    Exactly(u32),
}

/// The default of `refdb.looseRefs`. With this many loose refs, listing 1.5 million refs takes 16 % longer than without
/// any, and 36 % longer the first time, when all loose refs are read. A lower number would rewrite packed-refs more
/// often.
const LOOSE_REFS: usize = 2048;

impl Settings {
    /// Reads the settings. Those of the other ref format need not be valid, because git does not read them.
    ///
    /// # Errors
    ///
    /// Fails on a bad value for which git, too, would refuse nearly every command.
    pub fn load(
        config: &Config,
        environment: &Environment,
        is_bare: bool,
        is_reftable: bool,
    ) -> Result<Self, ConfigError> {
        // As in git, a `core.bare=false` from an included file or from `-c` enables reflogs, although no working tree
        // is looked for.
        let is_bare = is_bare && config.last("core.bare").is_none_or(|value| value.boolean().ok() != Some(false));
        let usual = if is_bare { LogPolicy::Never } else { LogPolicy::Usual };
        let mut settings = Settings {
            log_policy: usual,
            shared_repository: SharedRepository::Umask,
            fsync: Fsync::No,
            bad_for_writers: None,
            files_ref_lock_timeout: None,
            packed_refs_timeout: None,
            loose_batches: false,
            may_be_unsafe: false,
            git_packs: None,
            loose_refs: None,
            reftable: ReftableSettings {
                block_size: None,
                lasting_block_size: None,
                restart_interval: None,
                index_objects: true,
                geometric_factor: None,
                lock_timeout: None,
            },
            hooks_path: None,
            warn_ambiguous_refs: Ok(true),
            ignore_case: false,
            warnings: Vec::new(),
        };
        let mut sync = (false, Fsync::Fsync);
        for value in config.iter() {
            if let Some(name) = value.key.strip_prefix(b"core.") {
                settings.core(name, &value, environment, &mut sync)?;
            } else if is_reftable && let Some(name) = value.key.strip_prefix(b"reftable.") {
                settings.reftable.set(name, &value)?;
            } else {
                check_identity(&value)?;
            }
        }
        // As in git, only the last value is interpreted, so earlier ones may be invalid.
        if let Some(value) = config.last("core.logallrefupdates") {
            settings.log_policy = match value.text()? {
                word if word.eq_ignore_ascii_case(b"always") => LogPolicy::Always,
                _ if value.boolean()? => LogPolicy::Usual,
                _ => LogPolicy::Never,
            };
        }
        if let Some(value) = config.last("core.sharedrepository") {
            match SharedRepository::parse(&value) {
                Ok(sharing) => settings.shared_repository = sharing,
                Err(error) if is_reftable => return Err(error),
                Err(error) => settings.note_bad(&value, error.to_string()),
            }
        }
        if !is_reftable {
            // Git reads the timeouts only when it takes a lock, so readers do not depend on them.
            settings.files_ref_lock_timeout = settings.timeout(config.last("core.filesreflocktimeout"));
            settings.loose_batches = settings.small_batches(config, is_bare);
            settings.loose_refs = settings.loose_refs(config.last("refdb.looserefs"));
            settings.packed_refs_timeout = settings.timeout(config.last("core.packedrefstimeout"));
        }
        settings.may_be_unsafe = settings.may_be_unsafe(config.last("refdb.unsafestorage"));
        if sync.0 {
            settings.fsync = sync.1;
        }
        let Settings { files_ref_lock_timeout, packed_refs_timeout, loose_batches, .. } = &settings;
        let of_files = files_ref_lock_timeout.is_some() || packed_refs_timeout.is_some() || *loose_batches;
        debug_assert!(!is_reftable || !of_files, "settings of the other format are not looked at");
        Ok(settings)
    }

    fn small_batches(&mut self, config: &Config, is_bare: bool) -> bool {
        let Some(value) = config.last("refdb.smallbatches") else { return false };
        match value.raw.unwrap_or_default().as_bytes() {
            b"packed" => false,
            b"loose" => true,
            b"auto" => {
                self.git_packs = GitPacks::of(config, is_bare);
                self.git_packs.is_none()
            }
            other => {
                let other = other.as_bstr();
                let what = format!("bad value '{other}' for 'refdb.smallBatches': use packed, loose or auto");
                self.note_bad(&value, what);
                false
            }
        }
    }

    fn may_be_unsafe(&mut self, value: Option<Value<'_>>) -> bool {
        let Some(value) = value else { return false };
        value.boolean().unwrap_or_else(|error| {
            self.note_bad(&value, error.to_string());
            false
        })
    }

    fn loose_refs(&mut self, value: Option<Value<'_>>) -> Option<usize> {
        let Some(value) = value else { return Some(LOOSE_REFS) };
        match value.int() {
            Ok(count) if count >= 0 => (count > 0).then_some(count as usize),
            Ok(count) => {
                let what = format!("bad value '{count}' for 'refdb.looseRefs': use a number of refs, or 0 for never");
                self.note_bad(&value, what);
                None
            }
            Err(error) => {
                self.note_bad(&value, error.to_string());
                None
            }
        }
    }

    fn timeout(&mut self, value: Option<Value<'_>>) -> Option<LockTimeout> {
        let value = value?;
        match value.int() {
            Ok(millis) => Some(LockTimeout::from_millis(millis.into())),
            Err(error) => {
                self.note_bad(&value, error.to_string());
                None
            }
        }
    }

    /// Records a setting that prevents writers from locking anything, unless an earlier one has been recorded.
    fn note_bad(&mut self, value: &Value<'_>, what: String) {
        self.bad_for_writers.get_or_insert_with(|| BadSetting {
            key: value.key.to_owned(),
            value: value.raw.map(ToOwned::to_owned),
            what,
        });
    }

    fn core(
        &mut self,
        name: &[u8],
        value: &Value<'_>,
        environment: &Environment,
        sync: &mut (bool, Fsync),
    ) -> Result<(), ConfigError> {
        match name {
            b"fsync" => sync.0 = self.syncs_references(value)?,
            b"fsyncmethod" => {
                sync.1 = match value.text()?.as_bytes() {
                    // `batch` concerns loose objects only; everything else is synced file by file.
                    b"fsync" | b"batch" => Fsync::Fsync,
                    b"writeout-only" => Fsync::WriteoutOnly,
                    other => {
                        let other = other.as_bstr();
                        self.warnings.push(format!("ignoring unknown core.fsyncMethod value '{other}'"));
                        sync.1
                    }
                }
            }
            b"hookspath" => self.hooks_path = value.path(environment)?,
            b"warnambiguousrefs" => self.warn_ambiguous_refs = value.boolean().map_err(|error| error.to_string()),
            // The setting is ignored, because git 3.0 removes it: symbolic links are read, but never written.
            b"prefersymlinkrefs" => drop(value.boolean()?),
            b"ignorecase" => self.ignore_case = value.boolean()?,
            _ => {}
        }
        Ok(())
    }

    /// Returns whether `core.fsync` requests that refs are synced. No word of the value revokes a request: as in git,
    /// `-reference` and `none` only reduce the platform's default set, which does not contain refs.
    fn syncs_references(&mut self, value: &Value<'_>) -> Result<bool, ConfigError> {
        const OTHERS: [&[u8]; 8] = [
            b"none",
            b"loose-object",
            b"pack",
            b"pack-metadata",
            b"commit-graph",
            b"index",
            b"objects",
            b"derived-metadata",
        ];
        let mut references = false;
        for word in value.text()?.split(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r')) {
            let component = word.strip_prefix(b"-").unwrap_or(word);
            if [&b"reference"[..], b"committed", b"added", b"all"].contains(&component) {
                references |= component.len() == word.len();
            } else if !component.is_empty() && !OTHERS.contains(&component) {
                let component = component.as_bstr();
                self.warnings.push(format!("ignoring unknown core.fsync component '{component}'"));
            }
        }
        Ok(references)
    }
}

/// Validates a setting of the identity, as git does even in commands that need no identity.
fn check_identity(value: &Value<'_>) -> Result<(), ConfigError> {
    match value.key.as_bytes() {
        b"user.name" | b"user.email" | b"author.name" | b"author.email" | b"committer.name" | b"committer.email" => {
            value.text().map(|_| ())
        }
        b"user.useconfigonly" => value.boolean().map(|_| ()),
        _ => Ok(()),
    }
}

impl ReftableSettings {
    fn set(&mut self, name: &[u8], value: &Value<'_>) -> Result<(), ConfigError> {
        // As in git, 0 stands for the default.
        fn limited<T: TryFrom<u64> + Default + PartialEq>(
            value: &Value<'_>,
            max: u64,
            error: &str,
        ) -> Result<Option<T>, ConfigError> {
            let out_of_range = || ConfigError::OutOfRange(error.to_owned());
            let number = value.unsigned()?;
            if number > max {
                return Err(out_of_range());
            }
            let number = T::try_from(number).map_err(|_| out_of_range())?;
            Ok((number != T::default()).then_some(number))
        }
        match name {
            b"blocksize" => {
                self.block_size = limited(value, 0xff_ffff, "reftable block size cannot exceed 16MB")?;
                if value.origin.level != Level::Command {
                    self.lasting_block_size = self.block_size;
                }
            }
            b"restartinterval" => {
                self.restart_interval = limited(value, 0xffff, "reftable block size cannot exceed 65535")?;
            }
            b"indexobjects" => self.index_objects = value.boolean()?,
            b"geometricfactor" => {
                self.geometric_factor = limited(value, 0xff, "reftable geometric factor cannot exceed 255")?;
            }
            b"locktimeout" => self.lock_timeout = Some(LockTimeout::from_millis(value.long()?)),
            _ => {}
        }
        Ok(())
    }
}

impl SharedRepository {
    const GROUP: Self = SharedRepository::AtLeast(0o660);
    const EVERYBODY: Self = SharedRepository::AtLeast(0o664);

    fn parse(value: &Value<'_>) -> Result<Self, ConfigError> {
        let Some(text) = value.raw else { return Ok(Self::GROUP) };
        match text.as_bytes() {
            b"umask" => return Ok(SharedRepository::Umask),
            b"group" => return Ok(Self::GROUP),
            b"all" | b"world" | b"everybody" => return Ok(Self::EVERYBODY),
            _ => {}
        }
        let octal = text.to_str().ok().and_then(|text| u32::from_str_radix(text, 8).ok());
        match octal {
            None => Ok(if value.boolean()? { Self::GROUP } else { SharedRepository::Umask }),
            // Old versions of git wrote these numbers.
            Some(0) => Ok(SharedRepository::Umask),
            Some(1) => Ok(Self::GROUP),
            Some(2) => Ok(Self::EVERYBODY),
            Some(mode) if mode & 0o600 != 0o600 => Err(ConfigError::OutOfRange(format!(
                "problem with core.sharedRepository filemode value (0{mode:03o}).\n\
                 The owner of files must always have read and write permissions."
            ))),
            Some(mode) => {
                assert!(mode & 0o600 == 0o600, "a repository's owner may use its files");
                Ok(SharedRepository::Exactly(mode & 0o666))
            }
        }
    }

    /// Returns the permission bits that a file or folder should have, given its present bits, or `None` if those need
    /// no change.
    pub fn adjust(self, mode: u32, is_dir: bool) -> Option<u32> {
        let (SharedRepository::AtLeast(mut extra) | SharedRepository::Exactly(mut extra)) = self else { return None };
        if mode & 0o200 == 0 {
            extra &= !0o222;
        }
        if mode & 0o100 != 0 {
            extra |= (extra & 0o444) >> 2;
        }
        let kept = if matches!(self, SharedRepository::Exactly(_)) { mode & !0o777 } else { mode };
        let mut wanted = kept | extra;
        if is_dir {
            // Whoever may read a folder may also enter it, and new files inherit its group.
            wanted |= (wanted & 0o444) >> 2;
            if wanted & 0o060 != 0 {
                wanted |= 0o2000;
            }
        }
        let wanted = wanted & 0o7777;
        debug_assert!(
            wanted == mode & 0o7777 || self.adjust(mode & !0o7777 | wanted, is_dir).is_none(),
            "what was adjusted is right: {self:?} {mode:o} {wanted:o}"
        );
        (wanted != mode & 0o7777).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Outer;
    use refdb_vfs::Fs;

    fn load(settings: &[&str], is_reftable: bool) -> Result<Settings, String> {
        let mut environment = Environment::empty("/nonexistent");
        for setting in settings {
            environment = environment.with_config((*setting).into());
        }
        let config = Outer::default().protected(&Fs::real(), &environment).map_err(|error| error.report())?;
        Settings::load(&config, &environment, false, is_reftable).map_err(|error| error.report())
    }

    #[test]
    fn fsync_counts_only_what_is_asked_for() {
        for (value, expected) in [
            ("", false),
            ("none", false),
            ("objects", false),
            ("-reference", false),
            ("committed", true),
            ("added", true),
            ("all", true),
            ("reference", true),
            (",reference", true),
            ("committed,-reference", true),
            ("reference,none", true),
        ] {
            let settings = load(&[&format!("core.fsync={value}")], false).unwrap();
            assert_eq!(settings.fsync == Fsync::Fsync, expected, "{value}");
        }
        let settings = load(&["core.fsync=all,foo", "core.fsyncMethod=writeout-only"], false).unwrap();
        assert_eq!(settings.fsync, Fsync::WriteoutOnly);
        assert_eq!(settings.warnings, ["ignoring unknown core.fsync component 'foo'"]);
    }

    #[test]
    fn each_formats_settings_are_checked_for_that_format_only() {
        assert!(load(&["reftable.blockSize=12x"], false).is_ok());
        assert!(load(&["core.packedRefsTimeout=12x"], true).is_ok());
        for (setting, is_reftable, error) in [
            ("reftable.blockSize=12x", true, "bad numeric config value '12x' for 'reftable.blocksize': invalid unit"),
            ("reftable.blockSize=999999999", true, "reftable block size cannot exceed 16MB"),
            ("reftable.restartInterval=70000", true, "reftable block size cannot exceed 65535"),
            ("reftable.geometricFactor=256", true, "reftable geometric factor cannot exceed 255"),
            ("core.preferSymlinkRefs=foo", false, "bad boolean config value 'foo' for 'core.prefersymlinkrefs'"),
            ("core.logAllRefUpdates=foo", false, "bad boolean config value 'foo' for 'core.logallrefupdates'"),
            ("user.useConfigOnly=foo", true, "bad boolean config value 'foo' for 'user.useconfigonly'"),
        ] {
            assert_eq!(load(&[setting], is_reftable).unwrap_err(), format!("fatal: {error}\n"));
        }
        let settings = load(&["core.packedRefsTimeout=12x"], false).unwrap();
        let bad = "bad numeric config value '12x' for 'core.packedrefstimeout': invalid unit";
        let found = settings.bad_for_writers.unwrap();
        assert_eq!((found.key.as_bstr(), found.to_string()), ("core.packedrefstimeout".into(), bad.to_owned()));
        for key in ["user.name", "core.logallrefupdates"] {
            assert_eq!(
                load(&[key], false).unwrap_err(),
                format!("error: missing value for '{key}'\nfatal: unable to parse '{key}' from command-line config\n")
            );
        }
        let reftable = load(&["reftable.blockSize=0", "reftable.restartInterval=32"], true).unwrap().reftable;
        assert_eq!((reftable.block_size, reftable.restart_interval), (None, Some(32)));
        let reftable = load(&["reftable.blockSize=65536"], true).unwrap().reftable;
        assert_eq!(
            (reftable.block_size, reftable.lasting_block_size),
            (Some(65_536), None),
            "-c lasts for one command"
        );
    }

    #[test]
    fn shared_files_get_the_bits_git_gives_them() {
        let adjust = |value: &str, mode, is_dir| {
            load(&[&format!("core.sharedRepository={value}")], false).unwrap().shared_repository.adjust(mode, is_dir)
        };
        assert_eq!(adjust("umask", 0o600, false), None);
        assert_eq!(adjust("group", 0o600, false), Some(0o660));
        assert_eq!(adjust("true", 0o444, false), None);
        assert_eq!(adjust("group", 0o700, true), Some(0o2770));
        assert_eq!(adjust("all", 0o600, false), Some(0o664));
        assert_eq!(adjust("0640", 0o666, false), Some(0o640));
        assert_eq!(adjust("0640", 0o755, true), Some(0o2750));
        assert_eq!(adjust("0600", 0o755, true), Some(0o700));
        assert!(load(&["core.sharedRepository=0400"], true).is_err());
        assert!(load(&["core.sharedRepository=0400"], false).unwrap().bad_for_writers.is_some());
    }
}
