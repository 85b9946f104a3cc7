//! Formats refs by a compiled format.

use super::{
    atom::{Atom, Field, IdForm, NameForm, Part},
    format::{Align, Format, If, Piece, Side, Test, Usual},
    history::{TAGS_MAX, say_lie},
    object::Parsed,
    person,
    questions::Question,
    quote::Quote,
    world::{ObjectKind, World},
};
use crate::{
    failure::{Result, fatal},
    listing::Row,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::backend::Peeled;
use refdb_types::{ObjectId, space::is_space};
use unicode_width::UnicodeWidthChar;

mod counterpart;

/// Formats rows by a format.
pub struct Renderer<'a> {
    /// Where objects and other refs are looked up.
    pub world: &'a mut dyn World,
    /// How values are quoted.
    pub quote: Quote,
    /// Whether colors are written.
    pub colors: bool,
    /// The text in place of a detached HEAD's name, if branches are listed.
    pub detached: Option<BString>,
    own: Object,
    behind: Object,
    scratch: Vec<u8>,
}

/// A cache of the object that was looked up last, because adjacent refs often hold the same one.
#[derive(Default)]
struct Object {
    header: Option<(ObjectId, ObjectKind, u64)>,
    content: Option<ObjectId>,
    data: Vec<u8>,
}

impl<'a> Renderer<'a> {
    /// Makes a renderer that looks things up in `world`.
    pub fn new(world: &'a mut dyn World, quote: Quote, colors: bool) -> Self {
        let (own, behind) = (Object::default(), Object::default());
        Renderer { world, quote, colors, detached: None, own, behind, scratch: Vec::new() }
    }

    /// Appends a row without a line feed.
    #[inline(always)]
    pub fn row(&mut self, format: &Format, row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        match &format.usual {
            Some(pieces) if self.quote == Quote::None && !self.is_detached(row) => self.usual_row(pieces, row, out),
            _ => self.unusual_row(format, row, out),
        }
    }

    #[inline(always)]
    fn usual_row(&mut self, pieces: &[Usual], row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        for piece in pieces {
            match piece {
                Usual::Byte(byte) => out.push(*byte),
                Usual::Text(text) => out.extend_from_slice(text),
                Usual::Refname => out.extend_from_slice(row.name),
                Usual::Objectname => row.id.write_hex(out),
                Usual::Objecttype => self.objecttype(*row.id, row.name, out)?,
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn objecttype(&mut self, id: ObjectId, name: &BStr, out: &mut Vec<u8>) -> Result<()> {
        let kind = self.kind(false, id, name)?;
        out.extend_from_slice(kind.name().as_bytes());
        Ok(())
    }

    #[inline(never)]
    fn unusual_row(&mut self, format: &Format, row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        if format.wants_tags {
            self.peel(row)?;
        }
        if let Some(what) = format.misplaced {
            return fatal!["format: ", what];
        }
        for piece in &format.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Atom(atom) if self.quote == Quote::None => {
                    self.atom(atom, row, out)?;
                }
                // The result of a group is quoted as a whole, but not its parts.
                _ => {
                    let mut value = std::mem::take(&mut self.scratch);
                    value.clear();
                    self.piece(piece, row, &mut value)?;
                    self.quote.append(&value, out);
                    self.scratch = value;
                }
            }
        }
        if format.colored && self.colors {
            self.quote.append(b"\x1b[m", out);
        }
        Ok(())
    }

    fn pieces(&mut self, pieces: &[Piece], row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        pieces.iter().try_for_each(|piece| self.piece(piece, row, out))
    }

    fn piece(&mut self, piece: &Piece, row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Atom(atom) => self.atom(atom, row, out)?,
            Piece::Align(align, body) => {
                let mut value = Vec::new();
                self.pieces(body, row, &mut value)?;
                append_aligned(*align, &value, out);
            }
            Piece::If(choice) => {
                let holds = self.holds(choice, row)?;
                self.pieces(if holds { &choice.then } else { &choice.otherwise }, row, out)?;
            }
        }
        Ok(())
    }

    fn holds(&mut self, choice: &If, row: &Row<'_>) -> Result<bool> {
        let mut value = Vec::new();
        self.pieces(&choice.condition, row, &mut value)?;
        Ok(match &choice.test {
            Test::NotBlank => !value.iter().all(is_space),
            Test::Equals(text) => *text == value,
            Test::NotEquals(text) => *text != value,
        })
    }

    /// Appends the value of a field.
    pub fn atom(&mut self, atom: &Atom, row: &Row<'_>, out: &mut Vec<u8>) -> Result<()> {
        // Git refuses a broken tag even if the value does not depend on the object.
        let id = if atom.peeled { self.peel(row)? } else { Some(*row.id) };
        match &atom.field {
            Field::Refname(_) if self.is_detached(row) => {
                out.extend_from_slice(self.detached.as_ref().map_or(b"", |text| text.as_bytes()));
                out.extend_from_slice(if atom.peeled { b"^{}" } else { b"" });
            }
            Field::Refname(form) => self.name(*form, row.name, atom.peeled, out)?,
            Field::Symref(form) => self.name(*form, row.symref.unwrap_or_default(), atom.peeled, out)?,
            Field::Head => {
                let is_head = self.is_detached(row) || self.world.head() == Some(row.name);
                out.push(if is_head { b'*' } else { b' ' });
            }
            Field::Counterpart(direction, form) => self.counterpart(*direction, *form, row, out)?,
            Field::Worktreepath => out.extend_from_slice(self.world.worktree(row.name)?.unwrap_or_default()),
            Field::AheadBehind(base) => {
                if let Some((ahead, behind)) = self.world.ahead_behind_base(row.id, base.as_bstr())? {
                    out.extend_from_slice(format!("{ahead} {behind}").as_bytes());
                }
            }
            Field::IsBase(base) => {
                if self.world.is_base(row.name, base.as_bstr()) {
                    out.extend([b"(", base.as_bytes(), b")"].concat());
                }
            }
            Field::Color(sequence) => out.extend_from_slice(if self.colors { sequence } else { b"" }),
            Field::Flag => {
                let symbolic: &[u8] = if row.symref.is_some() { b"symref" } else { b"" };
                let packed = self.world.is_packed(row.symref.unwrap_or(row.name));
                let packed: &[u8] = if packed { b"packed" } else { b"" };
                let comma: &[u8] = if symbolic.is_empty() || packed.is_empty() { b"" } else { b"," };
                out.extend([symbolic, comma, packed].concat());
            }
            Field::Rest | Field::Blank { of_object: false } => {}
            field => {
                if let Some(id) = id {
                    self.object_field(field, atom.peeled, id, row.name, out)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the row is a detached HEAD in a list of branches.
    fn is_detached(&self, row: &Row<'_>) -> bool {
        self.detached.is_some() && row.name == "HEAD"
    }

    fn name(&mut self, form: NameForm, name: &BStr, peeled: bool, out: &mut Vec<u8>) -> Result<()> {
        match form {
            NameForm::Full => out.extend_from_slice(name),
            NameForm::Short if name.is_empty() => {}
            NameForm::Short => out.extend_from_slice(self.world.shorten(name)?),
            NameForm::Lstrip(count) => out.extend_from_slice(lstrip(name, count)),
            NameForm::Rstrip(count) => out.extend_from_slice(rstrip(name, count)),
        }
        if peeled {
            out.extend_from_slice(b"^{}");
        }
        Ok(())
    }

    fn object_field(
        &mut self,
        field: &Field,
        peeled: bool,
        id: ObjectId,
        name: &BStr,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match field {
            Field::Objectname(form) => return self.id(*form, &id, out),
            Field::Objecttype => {
                let kind = self.kind(peeled, id, name)?;
                out.extend_from_slice(kind.name().as_bytes());
                return Ok(());
            }
            Field::Objectsize => {
                let (_, size) = self.header(peeled, id, name)?;
                out.extend_from_slice(size.to_string().as_bytes());
                return Ok(());
            }
            Field::Disksize | Field::Deltabase => return self.stored(field, id, name, out),
            _ => {}
        }
        let kind = self.content(peeled, id, name)?;
        // The ids are found first and abbreviated afterwards, when the content is no longer borrowed.
        let mut ids: Vec<BString> = Vec::new();
        let mut form = IdForm::Full;
        let data = if peeled { &self.behind.data } else { &self.own.data };
        let parsed = Parsed::new(data);
        let (commit, tag) = (kind == ObjectKind::Commit, kind == ObjectKind::Tag);
        match field {
            Field::Tree(tree_form) if commit => {
                form = *tree_form;
                ids.extend(parsed.header("tree").map(BStr::to_owned));
            }
            Field::Parent(parent_form) if commit => {
                form = *parent_form;
                match self.world.grafted(&id) {
                    Some(parents) => ids.extend(parents.iter().map(|id| id.to_string().into())),
                    None => ids.extend(parsed.headers("parent").map(BStr::to_owned)),
                }
            }
            Field::Numparent if commit => {
                let count = self.world.grafted(&id).map_or_else(|| parsed.headers("parent").count(), <[_]>::len);
                out.extend_from_slice(count.to_string().as_bytes());
            }
            Field::TagTarget if tag => out.extend_from_slice(parsed.header("object").unwrap_or_default()),
            Field::TagType if tag => out.extend_from_slice(parsed.header("type").unwrap_or_default()),
            Field::TagName if tag => out.extend_from_slice(parsed.header("tag").unwrap_or_default()),
            Field::Person(role, part) if commit || tag => {
                let Some(line) = parsed.line(*role) else { return Ok(()) };
                let mapped = match part {
                    Part::Name { mapped: true } | Part::Email { mapped: true, .. } => mapped(self.world, line)?,
                    _ => None,
                };
                let line = mapped.as_ref().map_or(line, |line| line.as_bstr());
                person::show(line, part, self.world.clock(), out)?;
            }
            Field::Subject { sanitize: false } if commit || tag => parsed.subject(out),
            Field::Subject { sanitize: true } if commit || tag => parsed.sanitized_subject(out),
            Field::Body if commit || tag => parsed.body(out),
            Field::Contents(contents) if commit || tag => parsed.contents(*contents, out),
            Field::Trailers(form) if commit || tag => form.show(parsed.unsigned(), self.world.trailer_rules(), out),
            Field::Describe(options) if commit || tag => {
                out.extend_from_slice(&self.world.ask(&Question::Name(id, options.clone()))?);
            }
            Field::Signature(part) if commit => {
                out.extend_from_slice(Question::part(&self.world.ask(&Question::Signature(id))?, *part));
            }
            Field::Raw => out.extend_from_slice(data),
            Field::RawSize => out.extend_from_slice(data.len().to_string().as_bytes()),
            _ => {}
        }
        for (turn, hex) in ids.iter().enumerate() {
            if turn > 0 {
                out.push(b' ');
            }
            match ObjectId::from_hex(id.kind(), hex) {
                Ok(id) => self.id(form, &id, out)?,
                Err(_) => out.extend_from_slice(hex),
            }
        }
        Ok(())
    }

    /// Appends the stored size or the delta base of an object. A missing object is reported as for other fields.
    fn stored(&mut self, field: &Field, id: ObjectId, name: &BStr, out: &mut Vec<u8>) -> Result<()> {
        if self.world.kind(&id)?.is_none() {
            return fatal!["missing object ", id.to_string(), " for ", name];
        }
        let answer = self.world.ask(&Question::Stored(id))?;
        let (size, base) = answer.split_once_str(" ").unwrap_or_default();
        out.extend_from_slice(if *field == Field::Disksize { size } else { base });
        Ok(())
    }

    fn id(&mut self, form: IdForm, id: &ObjectId, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        id.write_hex(out);
        if let IdForm::Short(least) = form {
            out.truncate(start + self.world.abbreviate(id, least)?);
        }
        Ok(())
    }

    /// Returns the object to which an annotated tag leads, or `None` if the ref holds no tag.
    pub fn peel(&mut self, row: &Row<'_>) -> Result<Option<ObjectId>> {
        // As in git, the store is trusted if it has a peeled value, but not if it has none, because broken tags and
        // other writers leave tags without one.
        if let Peeled::To(id) = row.peeled {
            return Ok(Some(*id));
        }
        let mut kind = self.kind(false, *row.id, row.name)?;
        let mut behind = None;
        for _ in 0..TAGS_MAX {
            if kind != ObjectKind::Tag {
                break;
            }
            let id = behind.unwrap_or(*row.id);
            let peeled = behind.is_some();
            self.content(peeled, id, row.name)?;
            let data = if peeled { &self.behind.data } else { &self.own.data };
            let parsed = Parsed::new(data);
            let claimed = parsed.header("type").map(ToOwned::to_owned);
            let Some(target) = parsed.header("object").and_then(|hex| ObjectId::from_hex(id.kind(), hex).ok()) else {
                return fatal!["parse_object_buffer failed on ", id.to_string(), " for ", row.name];
            };
            kind = self.kind(true, target, row.name)?;
            if claimed.as_ref().is_none_or(|claimed| *claimed != kind.name()) {
                say_lie(&id, &target, kind, &claimed.unwrap_or_default());
                return fatal!["parse_object_buffer failed on ", id.to_string(), " for ", row.name];
            }
            behind = Some(target);
        }
        Ok(behind)
    }

    fn kind(&mut self, peeled: bool, id: ObjectId, name: &BStr) -> Result<ObjectKind> {
        let object = if peeled { &self.behind } else { &self.own };
        match object.header {
            Some((known, kind, _)) if known == id => Ok(kind),
            _ => match self.world.kind(&id)? {
                Some(kind) => Ok(kind),
                None => fatal!["missing object ", id.to_string(), " for ", name],
            },
        }
    }

    fn header(&mut self, peeled: bool, id: ObjectId, name: &BStr) -> Result<(ObjectKind, u64)> {
        let object = if peeled { &mut self.behind } else { &mut self.own };
        if let Some((known, kind, size)) = object.header
            && known == id
        {
            return Ok((kind, size));
        }
        match self.world.header(&id)? {
            Some((kind, size)) => {
                object.header = Some((id, kind, size));
                Ok((kind, size))
            }
            None => fatal!["missing object ", id.to_string(), " for ", name],
        }
    }

    /// Reads the content of an object into `behind` if `peeled` is set, and otherwise into `own`. Returns its kind.
    fn content(&mut self, peeled: bool, id: ObjectId, name: &BStr) -> Result<ObjectKind> {
        let object = if peeled { &mut self.behind } else { &mut self.own };
        if object.content == Some(id)
            && let Some((_, kind, _)) = object.header.filter(|(known, ..)| *known == id)
        {
            return Ok(kind);
        }
        object.content = None;
        match self.world.read(&id, &mut object.data)? {
            Some(kind) => {
                object.content = Some(id);
                object.header = Some((id, kind, object.data.len() as u64));
                Ok(kind)
            }
            None => fatal!["missing object ", id.to_string(), " for ", name],
        }
    }

    /// Returns the seconds since 1970 by which a date is sorted, or 0 if the object has no such date.
    pub fn seconds(&mut self, atom: &Atom, row: &Row<'_>) -> Result<u64> {
        let Field::Person(role, _) = atom.field else { return Ok(0) };
        let Some(id) = (if atom.peeled { self.peel(row)? } else { Some(*row.id) }) else { return Ok(0) };
        let kind = self.content(atom.peeled, id, row.name)?;
        let data = if atom.peeled { &self.behind.data } else { &self.own.data };
        let has_people = matches!(kind, ObjectKind::Commit | ObjectKind::Tag);
        Ok(if has_people { Parsed::new(data).seconds(role) } else { 0 })
    }
}

/// Applies the mail map to a person's line. Returns `None` if the line has no address or the map does not change it.
fn mapped(world: &mut dyn World, line: &BStr) -> Result<Option<BString>> {
    let Some(contact) = person::contact(line) else { return Ok(None) };
    let mapped = world.ask(&Question::Contact(contact.clone()))?;
    Ok((mapped != contact).then(|| person::with_contact(line, mapped.as_bstr())))
}

/// Removes `count` components at the front. A negative `count` is the negated number of components that remain.
fn lstrip(name: &BStr, count: i32) -> &[u8] {
    let components = name.split_str("/").count() as i64;
    let strip = if count < 0 { (components + i64::from(count)).max(0) } else { i64::from(count) };
    if strip == 0 {
        return name;
    }
    match name.find_iter("/").nth(strip as usize - 1) {
        Some(slash) => &name[slash + 1..],
        None => b"",
    }
}

/// Removes `count` components at the end. A negative `count` is the negated number of components that remain.
fn rstrip(name: &BStr, count: i32) -> &[u8] {
    let components = name.split_str("/").count() as i64;
    let strip = if count < 0 { (components + i64::from(count)).max(0) } else { i64::from(count) };
    if strip == 0 {
        return name;
    }
    match name.rfind_iter("/").nth(strip as usize - 1) {
        Some(slash) => &name[..slash],
        None => b"",
    }
}

/// Returns the number of columns that a text takes on a terminal, or its length in bytes if it is not UTF-8.
pub fn columns(text: &[u8]) -> usize {
    text.to_str().map_or(text.len(), |text| text.chars().filter_map(|char| char.width()).sum())
}

fn append_aligned(align: Align, value: &[u8], out: &mut Vec<u8>) {
    let padding = align.width.saturating_sub(columns(value));
    let before = match align.side {
        Side::Left => 0,
        Side::Right => padding,
        Side::Middle => padding / 2,
    };
    out.resize(out.len() + before, b' ');
    out.extend_from_slice(value);
    out.resize(out.len() + padding - before, b' ');
}

#[cfg(test)]
mod tests;
