//! Says which refs have changed, whichever program changed them: `cargo run --example watch -- REPOSITORY [PREFIX]`.
//!
//! Each round lists the refs. A ref that changes twice between two rounds is reported once, or not at all if its value
//! is the same as before.

use bstr::BString;
use refdb_refcache::{ListOptions, ViewSettings, Views, ViewsSettings};
use std::{collections::BTreeMap, env, ops::ControlFlow, path::Path, thread, time::Duration};

const PAUSE: Duration = Duration::from_millis(500);

fn main() -> Result<(), refdb_refcache::Error> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| ".git".into());
    let prefix = arguments.next().unwrap_or_else(|| "refs/".into());
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(Path::new(&path), &ViewSettings::default())?;
    let mut before: Option<BTreeMap<BString, String>> = None;
    loop {
        let options = ListOptions::new().prefixes(vec![prefix.clone().into()]);
        let mut now = BTreeMap::new();
        view.list(&options)?.each(&mut |row| {
            now.insert(row.name.to_owned(), format!("{:?}", row.target));
            ControlFlow::Continue(())
        })?;
        if let Some(before) = &before {
            for (name, value) in now.iter().filter(|(name, value)| before.get(*name) != Some(value)) {
                println!("{name} is {value}");
            }
            for name in before.keys().filter(|name| !now.contains_key(*name)) {
                println!("{name} is gone");
            }
        }
        before = Some(now);
        thread::sleep(PAUSE);
    }
}
