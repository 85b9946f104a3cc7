//! Sorts refs: `--sort`.

use super::{
    atom::{Atom, Contents, Field, NameForm, Part},
    format::Structure,
    render::Renderer,
    version::{self, Suffixes},
};
use crate::{failure::Result, listing::Row};
use bstr::{BStr, BString, ByteSlice};
use refdb::{backend::Peeled, config::Config};
use refdb_types::ObjectId;
use std::cmp::Ordering;

/// A sort key.
#[derive(Debug)]
pub struct Key {
    atom: Atom,
    reverse: bool,
    version: bool,
    /// Whether values are compared as times: the key is a date without a form, and not a version. As in git, a date
    /// with any form, including `default`, is compared as the text that is shown.
    by_time: bool,
}

/// The order in which refs are shown.
#[derive(Debug, Default)]
pub struct Order {
    /// The keys, the primary one first.
    keys: Vec<Key>,
    ignore_case: bool,
}

/// A ref that is kept until all refs are known, with the values of the sort keys once they are computed.
pub struct Entry {
    name: BString,
    id: ObjectId,
    symref: Option<BString>,
    peeled: Peeled,
    values: Vec<KeyValue>,
}

enum KeyValue {
    Text(BString),
    Number(u64),
}

impl Order {
    /// Parses the keys in the order of the command line, in which the last one is the primary key.
    pub fn new(keys: &[BString], ignore_case: bool, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Self> {
        let mut parsed = keys.iter().map(|key| Key::parse(key.as_bstr(), find)).collect::<Result<Vec<_>>>()?;
        parsed.reverse();
        Ok(Order { keys: parsed, ignore_case })
    }

    /// Returns whether this is the order in which refs are stored.
    pub fn is_natural(&self) -> bool {
        let natural = |key: &Key| {
            key.atom == Atom { peeled: false, field: Field::Refname(NameForm::Full) } && !key.reverse && !key.version
        };
        !self.ignore_case && self.keys.first().is_none_or(natural)
    }

    /// Computes the values of the keys.
    pub fn compute_values(&self, entries: &mut [Entry], renderer: &mut Renderer<'_>) -> Result<()> {
        for entry in entries {
            let values = self.keys.iter().map(|key| key.value(&entry.row(), renderer)).collect::<Result<_>>()?;
            entry.values = values;
        }
        Ok(())
    }

    /// Sorts the refs. Refs that are equal in all keys are sorted by name.
    pub fn sort(&self, entries: &mut [Entry], config: &Config) {
        let by_version = entries.len() > 1 && self.keys.iter().any(|key| key.version);
        let suffixes = if by_version { Suffixes::configured(config) } else { Suffixes::default() };
        entries.sort_by(|one, two| {
            let by_keys = self.keys.iter().zip(one.values.iter().zip(&two.values)).map(|(key, (one, two))| {
                let order = match (one, two) {
                    (KeyValue::Number(one), KeyValue::Number(two)) => one.cmp(two),
                    (KeyValue::Text(one), KeyValue::Text(two)) if key.version => version::compare(one, two, &suffixes),
                    (KeyValue::Text(one), KeyValue::Text(two)) => self.compare(one, two),
                    (KeyValue::Number(_), KeyValue::Text(_)) => Ordering::Less,
                    (KeyValue::Text(_), KeyValue::Number(_)) => Ordering::Greater,
                };
                if key.reverse { order.reverse() } else { order }
            });
            let by_keys = by_keys.fold(Ordering::Equal, Ordering::then);
            by_keys.then_with(|| self.compare(&one.name, &two.name)).then_with(|| one.name.cmp(&two.name))
        });
    }

    fn compare(&self, one: &[u8], two: &[u8]) -> Ordering {
        if self.ignore_case {
            let lower = |text: &[u8]| text.to_ascii_lowercase();
            lower(one).cmp(&lower(two))
        } else {
            one.cmp(two)
        }
    }
}

impl Entry {
    /// Copies a row.
    pub fn of(row: &Row<'_>) -> Self {
        let symref = row.symref.map(ToOwned::to_owned);
        Entry { name: row.name.to_owned(), id: *row.id, symref, peeled: *row.peeled, values: Vec::new() }
    }

    /// Returns the refname.
    pub fn name(&self) -> &BStr {
        self.name.as_bstr()
    }

    /// Returns whether the ref is HEAD.
    pub fn is_head(&self) -> bool {
        self.name == "HEAD"
    }

    /// Returns the row that was kept.
    pub fn row(&self) -> Row<'_> {
        Row {
            name: self.name.as_bstr(),
            id: &self.id,
            symref: self.symref.as_ref().map(|name| name.as_bstr()),
            peeled: &self.peeled,
        }
    }
}

impl Key {
    fn parse(text: &BStr, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Self> {
        let text: &[u8] = text;
        let (reverse, rest) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (version, rest) = match rest.strip_prefix(b"version:").or_else(|| rest.strip_prefix(b"v:")) {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let atom = match Structure::parse(rest)? {
            // A field that only affects others has the same value for all refs.
            Some(_) => Atom { peeled: false, field: Field::Blank { of_object: false } },
            None => Atom::parse(rest.as_bstr(), find)?,
        };
        let is_date = matches!(atom.field, Field::Person(_, Part::Date(Ok(_))));
        let by_time = is_date && !version && !rest.contains(&b':');
        Ok(Key { atom, reverse, version, by_time })
    }

    fn value(&self, row: &Row<'_>, renderer: &mut Renderer<'_>) -> Result<KeyValue> {
        if self.by_time {
            return renderer.seconds(&self.atom, row).map(KeyValue::Number);
        }
        let mut text = Vec::new();
        renderer.atom(&self.atom, row, &mut text)?;
        let counts = matches!(
            self.atom.field,
            Field::Objectsize | Field::Disksize | Field::RawSize | Field::Numparent | Field::Contents(Contents::Size)
        );
        Ok(match counts && !self.version {
            true => KeyValue::Number(text.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0)),
            false => KeyValue::Text(text.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_order_of_names_is_natural() {
        let order = |keys: &[&str]| {
            let keys: Vec<_> = keys.iter().map(|key| (*key).into()).collect();
            Order::new(&keys, false, &mut |_| Ok(())).unwrap()
        };
        assert!(order(&[]).is_natural());
        assert!(order(&["refname"]).is_natural());
        assert!(order(&["objectname", "refname"]).is_natural(), "the last key decides, and names are all different");
        assert!(!order(&["refname", "objectname"]).is_natural());
        assert!(!order(&["-refname"]).is_natural());
        assert!(!order(&["version:refname"]).is_natural());
        assert!(!order(&["refname:short"]).is_natural());
        assert!(!Order::new(&[], true, &mut |_| Ok(())).unwrap().is_natural());
    }
}
