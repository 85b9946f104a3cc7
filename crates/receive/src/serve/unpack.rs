//! Unpacks the client's objects with git's programs.

use super::{
    ServeError,
    child::{Alive, Input, Output},
    quarantine::Quarantine,
    session::Session,
};
use crate::wire::PackHeader;
use bstr::{BString, ByteSlice};
use refdb::objects::check_packs;
use std::path::PathBuf;

/// The result of receiving a pack.
pub(super) struct Unpacked {
    /// What the report says of the pack if it could not be unpacked.
    pub(super) failure: Option<BString>,
    /// The keep file that protects the new pack from being repacked before a ref leads to it.
    pub(super) keep_file: Option<PathBuf>,
}

impl Unpacked {
    fn failed(why: impl Into<BString>) -> Self {
        Unpacked { failure: Some(why.into()), keep_file: None }
    }
}

impl Session<'_, '_> {
    /// Reads the pack into a quarantine. For an empty pack, usually no quarantine is created yet if there is no
    /// pre-receive hook; see [`make_lacking_quarantine`](Self::make_lacking_quarantine).
    pub(super) fn unpack(&mut self) -> Result<Unpacked, ServeError> {
        let mut header = Vec::with_capacity(PackHeader::BYTES);
        self.read_exactly(PackHeader::BYTES, &mut header)?;
        let header = match PackHeader::parse(&header) {
            Ok(header) => header,
            Err(error) => return Ok(Unpacked::failed(error.to_string())),
        };
        let is_empty = header == (PackHeader { version: 2, objects: 0 }) && self.settings.unpack_limit > 0;
        let has_hook = || self.store.hooks().programs("pre-receive").is_ok_and(|programs| !programs.is_empty());
        self.lacks_quarantine = is_empty && !has_hook();
        let made = match self.lacks_quarantine {
            true => Quarantine::clear_abandoned(&self.fs, &self.objects_dir).map(|()| None),
            false => Quarantine::make(&self.fs, &self.objects_dir).map(Some),
        };
        match made {
            Ok(quarantine) => self.quarantine = quarantine,
            Err(error) => {
                self.channel.error(error.to_string().as_bytes())?;
                return Ok(Unpacked::failed("unable to create temporary object directory"));
            }
        }
        self.pack_objects = header.objects;
        if is_empty {
            self.end_of_empty_pack()
        } else if header.objects < self.settings.unpack_limit {
            self.unpack_objects(&header)
        } else {
            self.index_pack(&header)
        }
    }

    /// Reads the rest of a pack without objects: its checksum, which is the same for all such packs.
    fn end_of_empty_pack(&mut self) -> Result<Unpacked, ServeError> {
        let hash = self.store.hash();
        let mut checksum = Vec::with_capacity(hash.len_bytes());
        self.read_exactly(hash.len_bytes(), &mut checksum)?;
        if checksum == PackHeader::checksum_of_empty(hash).as_bytes() {
            return Ok(Unpacked { failure: None, keep_file: None });
        }
        self.channel.error(b"the pack is cut off, or its checksum is wrong")?;
        Ok(Unpacked::failed("unpack-objects abnormal exit"))
    }

    /// Creates the quarantine that a push with an empty pack still lacks, because a program is about to run. Most such
    /// pushes run no program, and creating the folder would cost them more than everything else but the update of the
    /// refs.
    pub(super) fn make_lacking_quarantine(&mut self) -> Result<(), ServeError> {
        if std::mem::take(&mut self.lacks_quarantine) {
            self.quarantine = Some(Quarantine::make(&self.fs, &self.objects_dir)?);
        }
        Ok(())
    }

    fn unpack_objects(&mut self, header: &PackHeader) -> Result<Unpacked, ServeError> {
        let mut git = self.limited_git("unpack-objects");
        git.words(self.is_quiet().then_some("-q"));
        git.words([format!("--pack_header={},{}", header.version, header.objects)]);
        git.words(self.settings.fsck.then_some("--strict"));
        git.words(self.max_input());
        let ended = git.run(Input::Client(self.input), Output::ErrorsToUser, Alive::AfterNul, &mut self.channel)?;
        Ok(if ended.success() {
            Unpacked { failure: None, keep_file: None }
        } else {
            Unpacked::failed("unpack-objects abnormal exit")
        })
    }

    fn index_pack(&mut self, header: &PackHeader) -> Result<Unpacked, ServeError> {
        let mut git = self.limited_git("index-pack");
        git.words(["--stdin"]);
        git.words([format!("--pack_header={},{}", header.version, header.objects)]);
        let host = refdb_vfs::host_name();
        git.words([format!("--keep=receive-pack {} on {}", std::process::id(), host.as_bstr())]);
        if self.channel.has_side_band() {
            git.words((!self.is_quiet()).then_some("--show-resolving-progress"));
            git.words(["--report-end-of-input"]);
        }
        git.words(self.settings.fsck.then_some("--strict"));
        git.words((!self.call.reject_thin_pack).then_some("--fix-thin"));
        git.words(self.max_input());
        let ended = git.run(Input::Client(self.input), Output::Wanted, Alive::AfterNul, &mut self.channel)?;
        if !ended.success() {
            return Ok(Unpacked::failed("index-pack abnormal exit"));
        }
        // Two entries of one object could make git's readers alternate between them forever.
        if let Some(quarantine) = &self.quarantine
            && let Err(error) = check_packs(quarantine.folder(), self.store.hash())
        {
            self.channel.error(error.to_string().as_bytes())?;
            return Ok(Unpacked::failed("index-pack abnormal exit"));
        }
        // The output is `keep` or `pack`, a tab, the pack's name and the end of the line. After that, index-pack
        // repeats the bytes that it read beyond the pack.
        let digits = self.store.hash().len_hex();
        let name = ended.output.strip_prefix(b"keep\t").and_then(|rest| rest.get(..digits));
        let name = name.map(|name| name.to_str_lossy().into_owned());
        if ended.output.len() > b"keep\t\n".len() + digits {
            self.channel.error(b"data follows the pack: the client must send nothing after its checksum")?;
            return Ok(Unpacked::failed("index-pack abnormal exit"));
        }
        let keep_file = name.map(|name| self.objects_dir.join("pack").join(format!("pack-{name}.keep")));
        Ok(Unpacked { failure: None, keep_file })
    }

    pub(super) fn max_input(&self) -> Option<String> {
        let bytes = self.settings.max_input_bytes;
        (bytes != 0).then(|| format!("--max-input-size={bytes}"))
    }
}
