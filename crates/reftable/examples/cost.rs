//! Runs the core operations, to be measured under callgrind or perf. The figures are in the crate's README.
//!
//! ```text
//! cost write FILE COUNT [distinct]     a table of COUNT refs, at one object or at as many
//! cost log COUNT                       a table in memory of one ref and COUNT log entries
//! cost list FILE...                    a walk over a stack, oldest table first
//! cost batch STEP FILE...              looks up every STEP-th name in one sorted batch
//! cost lookup NAME FILE...             looks up one name
//! ```

use refdb_vfs::{Fs, Mapping};
use reftable::{
    HashKind, LogRecord, LogValue, Merged, ObjectId, RefRecord, RefValue, Source, Table, TableWriter, WriteOptions,
};
use std::{error::Error, path::Path, sync::Arc};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["write", file, count] => write(file, count.parse()?, false),
        ["write", file, count, "distinct"] => write(file, count.parse()?, true),
        ["log", count] => log(count.parse()?),
        ["list", ref files @ ..] => list(files),
        ["batch", step, ref files @ ..] => batch(step.parse()?, files),
        ["lookup", name, ref files @ ..] => {
            println!("{:?}", stack(files)?.get(name.as_bytes(), |record| record.update_index)?);
            Ok(())
        }
        _ => {
            const USAGE: &str = "usage: cost write FILE COUNT [distinct] | log COUNT | list FILE... \
                                 | batch STEP FILE... | lookup NAME FILE...";
            Err(USAGE.into())
        }
    }
}

/// Writes a name of the form that Gerrit uses. It is composed by hand, because formatting would hide the measured work.
fn name(buffer: &mut Vec<u8>, at: u64) {
    buffer.clear();
    buffer.extend_from_slice(b"refs/changes/00/0000000/1");
    let mut digits = |end: usize, len: usize, mut value: u64| {
        for place in (end - len..end).rev() {
            buffer[place] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    digits(15, 2, at / 20_000);
    digits(23, 7, at);
}

fn write(file: &str, count: u64, distinct: bool) -> Result<(), Box<dyn Error>> {
    let path = Path::new(file);
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let mut sink = Fs::real().create_new(path, 0o644)?;
    let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut sink)?;
    let mut buffer = Vec::new();
    let mut raw = [7; 20];
    for at in 0..count {
        name(&mut buffer, at);
        if distinct {
            raw[..8].copy_from_slice(&at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        }
        let id = ObjectId::from_bytes(HashKind::Sha1, &raw).ok_or("20 bytes")?;
        writer.add_ref(&RefRecord { name: buffer.as_slice().into(), update_index: 1, value: RefValue::Direct(id) })?;
    }
    println!("{:?}", writer.finish()?);
    Ok(())
}

fn log(count: u64) -> Result<(), Box<dyn Error>> {
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes)?;
    let id = ObjectId::null(HashKind::Sha1);
    writer.add_ref(&RefRecord { name: "refs/heads/main".into(), update_index: 1, value: RefValue::Direct(id) })?;
    let mut buffer = Vec::new();
    for at in 0..count {
        name(&mut buffer, at);
        let value = LogValue::Update {
            old: id,
            new: id,
            name: "C O Mitter".into(),
            email: "committer@example.com".into(),
            time_seconds: 1_700_000_000,
            tz_offset: 0,
            message: "push\n".into(),
        };
        writer.add_log(&LogRecord { name: buffer.as_slice().into(), update_index: 1, value })?;
    }
    println!("{:?}", writer.finish()?);
    Ok(())
}

fn stack(files: &[&str]) -> Result<Merged, Box<dyn Error>> {
    let open = |file: &&str| -> Result<Arc<Table>, Box<dyn Error>> {
        let mapping = Mapping::new(&Fs::real().open(Path::new(file))?)?;
        Ok(Table::open(Source::Mapped(Arc::new(mapping)), *file)?)
    };
    Ok(Merged::new(files.iter().map(open).collect::<Result<Vec<_>, _>>()?)?)
}

fn list(files: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut cursor = stack(files)?.refs();
    let (mut count, mut sum) = (0u64, 0u64);
    while let Some(record) = cursor.next()? {
        count += 1;
        sum += record.name.len() as u64;
        if let RefValue::Direct(id) = record.value {
            sum += u64::from(id.as_bytes()[0]);
        }
    }
    println!("{count} refs, {sum}");
    Ok(())
}

fn batch(step: u64, files: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut cursor = stack(files)?.refs();
    let mut buffer = Vec::new();
    let mut found = 0u64;
    let mut at = 0;
    loop {
        name(&mut buffer, at);
        if cursor.lookup(&buffer)?.is_none() {
            break;
        }
        found += 1;
        at += step;
    }
    println!("{found} found");
    Ok(())
}
