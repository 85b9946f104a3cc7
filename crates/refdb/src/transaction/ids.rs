use super::ObjectClass;
use refdb_types::ObjectId;
use std::collections::HashMap;

/// Object ids, each stored once, with the known class of their objects. Many edits of a transaction often name few
/// objects.
#[derive(Default)]
pub(super) struct Ids {
    list: Vec<ObjectId>,
    /// The classes by position in `list`. Positions past the end have no known class.
    classes: Vec<Option<ObjectClass>>,
    index: HashMap<ObjectId, u32>,
    last: Option<(ObjectId, u32)>,
}

impl Ids {
    pub(super) fn intern(&mut self, id: &ObjectId) -> u32 {
        debug_assert!(self.list.first().is_none_or(|first| first.kind() == id.kind()), "ids are of one hash: {id}");
        if let Some((last, at)) = &self.last
            && last == id
        {
            return *at;
        }
        let at = *self.index.entry(*id).or_insert_with(|| {
            self.list.push(*id);
            self.list.len() as u32 - 1
        });
        debug_assert_eq!(self.list.len(), self.index.len(), "each id is stored once");
        debug_assert_eq!(self.get(at), *id, "an id stays where it was stored");
        self.last = Some((*id, at));
        at
    }

    pub(super) fn get(&self, at: u32) -> ObjectId {
        debug_assert!((at as usize) < self.list.len(), "an id is asked for by the place that it was given: {at}");
        self.list[at as usize]
    }

    pub(super) fn class(&self, at: u32) -> Option<ObjectClass> {
        self.classes.get(at as usize).copied().flatten()
    }

    pub(super) fn set_class(&mut self, at: u32, class: ObjectClass) {
        debug_assert!((at as usize) < self.list.len(), "the class is that of an id which is known");
        if self.classes.len() <= at as usize {
            self.classes.resize(at as usize + 1, None);
        }
        self.classes[at as usize] = Some(class);
    }

    /// The object to which the annotated tag at this position peels.
    pub(super) fn peeled(&self, at: u32) -> Option<ObjectId> {
        match self.class(at) {
            Some(ObjectClass::Tag(peeled)) => peeled,
            _ => None,
        }
    }
}
