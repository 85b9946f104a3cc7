//! A bounded cache for keys that are uniformly distributed, as object ids are.

use crate::ObjectId;

/// A key of a [`Memo`].
pub trait Spread: Copy {
    /// Returns a hash of the key, whose low bits select a slot.
    fn spread(&self) -> usize;

    /// Returns whether two keys are equal.
    fn is(&self, other: &Self) -> bool;
}

impl Spread for ObjectId {
    /// Object ids are uniformly distributed already. Ids that somebody has crafted to collide only evict one another
    /// and ids in neighbouring slots.
    #[inline]
    fn spread(&self) -> usize {
        let bytes = self.as_array();
        u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]) as usize
    }

    #[inline]
    fn is(&self, other: &Self) -> bool {
        self == other
    }
}

/// The hexadecimal digits of an id. They have to be mixed, because the low bits of digits are unevenly distributed.
impl<const LEN: usize> Spread for [u8; LEN] {
    #[inline]
    fn spread(&self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let head = self.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
        (head.wrapping_mul(ODD) >> 32) as usize
    }

    /// The length is known, so the comparison is compiled inline instead of as a call of memcmp.
    #[inline]
    fn is(&self, other: &Self) -> bool {
        self == other
    }
}

/// A cache that remembers a value for roughly the keys that were put last. A key may be in any of eight consecutive
/// slots; if all of them are taken, it replaces the entry in the first one. The cache grows with the number of keys up
/// to `PLACES` slots, which must be a power of two and at least 64.
#[derive(Debug)]
pub struct Memo<K, V, const PLACES: usize> {
    places: Vec<Option<(K, V)>>,
    taken: usize,
}

/// The number of consecutive slots that a key may be in, starting at the one that its hash selects.
const TRIES: usize = 8;

/// The number of slots that are allocated for the first key.
const PLACES_MIN: usize = 64;

impl<K, V, const PLACES: usize> Default for Memo<K, V, PLACES> {
    fn default() -> Self {
        const { assert!(PLACES.is_power_of_two() && PLACES >= PLACES_MIN) }
        Memo { places: Vec::new(), taken: 0 }
    }
}

impl<K: Spread, V: Copy, const PLACES: usize> Memo<K, V, PLACES> {
    /// Returns the value of a key, unless none was put or the key has been evicted.
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<&V> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = key.spread();
        for _ in 0..TRIES {
            match self.places.get(at & mask)? {
                Some((known, value)) if known.is(key) => return Some(value),
                Some(_) => at = at.wrapping_add(1),
                None => return None,
            }
        }
        None
    }

    /// Remembers a value for a key, replacing the key's previous value.
    pub fn put(&mut self, key: K, value: V) {
        if self.taken * 2 >= self.places.len() && self.places.len() < PLACES {
            self.grow();
        }
        let home = key.spread();
        let mask = self.places.len() - 1;
        let is_free = |at: &usize| self.places[*at].as_ref().is_none_or(|(known, _)| known.is(&key));
        let at = (0..TRIES).map(|tried| home.wrapping_add(tried) & mask).find(is_free).unwrap_or(home & mask);
        self.taken += usize::from(self.places[at].is_none());
        self.places[at] = Some((key, value));
        debug_assert!(self.taken <= self.places.len() && self.places.len() <= PLACES, "it keeps to its bound");
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.places.len() * 2).max(PLACES_MIN);
        let before = std::mem::replace(&mut self.places, vec![None; len]);
        self.taken = 0;
        for (key, value) in before.into_iter().flatten() {
            self.put(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashKind;

    fn id(number: u32) -> ObjectId {
        // Consecutive numbers are not uniformly distributed, unlike ids.
        let bytes = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        ObjectId::from_bytes(HashKind::Sha1, &bytes.repeat(5)).unwrap()
    }

    #[test]
    fn what_was_put_last_for_a_key_is_got() {
        let mut memo = Memo::<ObjectId, u32, 1024>::default();
        assert_eq!(memo.get(&id(1)), None);
        for number in 0..400 {
            memo.put(id(number), number);
            memo.put(id(number / 2), number + 1000);
        }
        for number in 0..400 {
            let expected = if number < 200 { 2 * number + 1001 } else { number };
            assert_eq!(memo.get(&id(number)), Some(&expected), "{number}");
            assert_eq!(memo.get(&id(number + 400)), None);
        }
    }

    #[test]
    fn a_full_table_keeps_to_its_bound_and_gives_no_wrong_answer() {
        let mut memo = Memo::<ObjectId, u32, 64>::default();
        for number in 0..10_000 {
            memo.put(id(number), number);
            assert_eq!(memo.get(&id(number)), Some(&number), "the last one is there");
        }
        assert_eq!(memo.places.len(), 64);
        let left = (0..10_000).filter_map(|number| memo.get(&id(number)).map(|value| assert_eq!(*value, number)));
        assert!((32..=64).contains(&left.count()));
    }

    #[test]
    fn keys_of_one_place_drive_one_another_out_and_are_not_confused() {
        let same = |last: u8| {
            let mut bytes = [7; 20];
            bytes[19] = last;
            ObjectId::from_bytes(HashKind::Sha1, &bytes).unwrap()
        };
        let mut memo = Memo::<ObjectId, u8, 1024>::default();
        for last in 0..=255 {
            memo.put(same(last), last);
            assert_eq!(memo.get(&same(last)), Some(&last));
        }
        assert!((0..=255).all(|last| memo.get(&same(last)).is_none_or(|value| *value == last)));
    }

    #[test]
    fn digits_are_keys_too() {
        let mut memo = Memo::<[u8; 40], (), 4096>::default();
        let digits = |number: u32| {
            let mut digits = Vec::new();
            id(number).write_hex(&mut digits);
            <[u8; 40]>::try_from(digits).unwrap()
        };
        (0..1500).for_each(|number| memo.put(digits(number), ()));
        assert!((0..1500).filter(|number| memo.get(&digits(*number)).is_some()).count() > 1490, "they are spread");
        assert!((1500..3000).all(|number| memo.get(&digits(number)).is_none()));
    }
}
