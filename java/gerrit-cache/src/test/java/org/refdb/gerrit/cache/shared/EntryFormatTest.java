package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.refdb.gerrit.cache.shared.EntryFormat.BadEntryException;

class EntryFormatTest {
  private static final byte[] NAME = "name".getBytes(UTF_8);
  private static final byte[] KEY = "key".getBytes(UTF_8);
  private static final byte[] VALUE = "value".getBytes(UTF_8);

  private static EntryFormat format(boolean isSealed) {
    return new EntryFormat(isSealed ? List.of(new byte[32]) : List.of());
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatIsEncodedIsDecoded(boolean isSealed) throws BadEntryException {
    EntryFormat format = format(isSealed);
    EntryFormat.Value value = format.decode(NAME, KEY, format.encode(NAME, KEY, VALUE, 42));
    assertArrayEquals(VALUE, value.bytes());
    assertEquals(42, value.createdMillis());
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void noChangedByteAndNoCutIsBelieved(boolean isSealed) {
    EntryFormat format = format(isSealed);
    byte[] entry = format.encode(NAME, KEY, VALUE, 42);
    for (int i = 0; i < entry.length; i++) {
      for (int bit = 0; bit < 8; bit++) {
        byte[] changed = entry.clone();
        changed[i] ^= (byte) (1 << bit);
        assertThrows(BadEntryException.class, () -> format.decode(NAME, KEY, changed));
      }
      byte[] cut = Arrays.copyOf(entry, i);
      assertThrows(BadEntryException.class, () -> format.decode(NAME, KEY, cut));
      assertThrows(BadEntryException.class, () -> format.decode(NAME, KEY, Arrays.copyOf(entry, entry.length + 1)));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anEntryOfAnotherNameOrKeyIsNone(boolean isSealed) {
    EntryFormat format = format(isSealed);
    byte[] entry = format.encode(NAME, KEY, VALUE, 42);
    assertThrows(BadEntryException.class, () -> format.decode("other".getBytes(UTF_8), KEY, entry));
    assertThrows(BadEntryException.class, () -> format.decode(NAME, "yek".getBytes(UTF_8), entry));
  }

  @Test
  void keysRotate() throws BadEntryException {
    byte[] first = new byte[32];
    byte[] second = new byte[32];
    second[0] = 1;
    byte[] entry = new EntryFormat(List.of(first)).encode(NAME, KEY, VALUE, 1);
    assertArrayEquals(VALUE, new EntryFormat(List.of(second, first)).decode(NAME, KEY, entry).bytes());
    BadEntryException unknown =
        assertThrows(BadEntryException.class, () -> new EntryFormat(List.of(second)).decode(NAME, KEY, entry));
    assertTrue(unknown.isOfUnknownKey);
  }

  /** Previously, the generation of a cache whose name is as long as a hash was taken for an entry. */
  @Test
  void theNameOfAGenerationIsNotThatOfAnEntry() {
    byte[] entry = new EntryKeys("site", "cache", List.of()).of("1", KEY);
    assertEquals("cache", EntryKeys.cacheOf("site", entry));
    assertNull(EntryKeys.cacheOf("other", entry));
    for (int length = 0; length < 40; length++) {
      assertNull(EntryKeys.cacheOf("site", EntryKeys.generation("site", "c".repeat(length))), length + " characters");
    }
  }

  @Test
  void namesDifferInEachPartOfTheirContext() {
    byte[] name = new EntryKeys("site", "cache", List.of("a", "b")).of("1", KEY);
    assertTrue(new String(name, UTF_8).matches("refdb:site:cache:[A-Za-z0-9_-]{32}"));
    assertArrayEquals(name, new EntryKeys("site", "cache", List.of("a", "b")).of("1", KEY));
    assertFalse(Arrays.equals(name, new EntryKeys("site", "cache", List.of("ab", "")).of("1", KEY)));
    assertFalse(Arrays.equals(name, new EntryKeys("site", "cache", List.of("a", "b")).of("2", KEY)));
    assertFalse(Arrays.equals(name, new EntryKeys("site", "cache", List.of("a", "b")).of("1", VALUE)));
  }
}
