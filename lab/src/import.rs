//! Implements `refdb-lab import`: values that other tools measured become lines of a history, marked with the tool,
//! because they were not measured in pairs. [`json`](mod@json) and [`csv`] parse the files, and [`time`](mod@time)
//! their dates.

pub mod csv;
pub mod json;
pub mod time;

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{
    lines::append,
    measure::Measure,
    options::{ImportOptions, Tool},
    page::entry::Imported,
};

/// What is known of a file besides its content.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The time of the last modification, in seconds since 1970; 0 if it is unknown.
    pub modified: u64,
}

impl About<'_> {
    /// Returns the name of the file without its extension. It stands for the commit if a file of hyperfine names none,
    /// or if the file is in Bencher Metric Format.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Maximum size of a file, in bytes.
const SIZE_MAX: u64 = 256 << 20;

/// Maximum number of values in a file.
const VALUES_MAX: usize = 1_000_000;

/// Maximum number of bytes of a name.
const NAME_MAX: usize = 1000;

/// Imports the files that the options name. Nothing is written if one of them is refused.
pub fn run(options: &ImportOptions, out: &mut impl Write) -> Result<()> {
    let mut lines = String::new();
    let mut count = 0;
    for path in &options.files {
        for imported in file(options.from, path).with_context(|| format!("'{}'", path.display()))? {
            lines += &line(&imported)?;
            count += 1;
        }
    }
    append(&options.history, lines)?;
    writeln!(out, "{count} values imported from {} files of {}", options.files.len(), options.from.name())?;
    Ok(())
}

fn file(tool: Tool, path: &Path) -> Result<Vec<Imported>> {
    let open = File::open(path).context("cannot open it")?;
    let about = open.metadata().context("cannot read its size")?;
    let mut text = Vec::new();
    open.take(SIZE_MAX + 1).read_to_end(&mut text).context("cannot read it")?;
    ensure!(text.len() as u64 <= SIZE_MAX, "it has more than {SIZE_MAX} bytes");
    let text = String::from_utf8(text)
        .map_err(|error| anyhow::anyhow!("byte {} is no UTF-8", error.utf8_error().valid_up_to()))?;
    let modified = about.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |time| time.as_secs());
    // Criterion has the name of a benchmark in another file.
    let names =
        if tool == Tool::Criterion { fs::read_to_string(path.with_file_name("benchmark.json")).ok() } else { None };
    parse(tool, &text, About { path, modified }, names.as_deref())
}

/// Parses the text of a file of a tool. `names` is the text of Criterion's `benchmark.json`, if there is one.
///
/// # Errors
///
/// Fails if the text is not what the tool writes, with the line, and for JSON the column, if the fault has one; and if
/// there are no values, more than a million, negative or infinite ones, or names or parameters of more than 1,000
/// bytes.
pub fn parse(tool: Tool, text: &str, about: About<'_>, names: Option<&str>) -> Result<Vec<Imported>> {
    let found = match tool {
        Tool::Hyperfine => json::hyperfine(text, about),
        Tool::Bencher => json::bencher(text, about),
        Tool::Criterion => json::criterion(text, about, names),
        Tool::Otava => csv::otava(text),
    }?;
    ensure!(!found.is_empty(), "there are no values in it");
    ensure!(found.len() <= VALUES_MAX, "it has {} values, more than {VALUES_MAX}", found.len());
    for imported in &found {
        let name = &imported.scenario;
        ensure!(imported.value.is_finite() && imported.value >= 0.0, "the value of '{name}' is {}", imported.value);
        let parameters = imported.parameters.iter().flat_map(|(name, value)| [name, value]);
        for name in parameters.chain([name, &imported.commit, &imported.revision]) {
            ensure!(name.len() <= NAME_MAX, "a name has {} bytes, more than {NAME_MAX}", name.len());
        }
    }
    Ok(found)
}

/// Returns the line of a history for a value.
fn line(imported: &Imported) -> Result<String> {
    let mut line = serde_json::to_value(imported)?;
    line["kind"] = json!("imported");
    Ok(format!("{line}\n"))
}

/// Returns the measure that another tool calls `name`, and the factor by which its values are converted to the unit of
/// the lab; `None` if the lab has no such measure.
fn measure(name: &str) -> Option<(Measure, f64)> {
    match name {
        "latency" => Some((Measure::Wall, 1e-9)),
        "instructions" => Some((Measure::Instructions, 1.0)),
        "peak" => Some((Measure::Peak, 1.0)),
        name => Measure::ALL.into_iter().find(|measure| measure.name() == name).map(|measure| (measure, 1.0)),
    }
}
