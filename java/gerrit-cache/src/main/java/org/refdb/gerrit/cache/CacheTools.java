package org.refdb.gerrit.cache;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.shared.Counts;
import org.refdb.gerrit.cache.store.Store;

/**
 * Operations of administrators on the files of a persistent cache while the server uses them. They throw an {@link
 * java.io.UncheckedIOException} if the engine or a stream fails.
 */
public final class CacheTools {
  /** Maximum number of entries that {@link #top} returns. */
  public static final int TOP_MAX = 1000;

  private static final int SHOWN_KEY_BYTES_MAX = 100;
  private static final String SECRET = "(secret)";

  /** The bits of a byte that tell whether it continues a character of UTF-8, and their value if it does. */
  private static final int CONTINUES_MASK = 0xC0;
  private static final int CONTINUES = 0x80;

  private final DiskTier<?, ?> tier;

  CacheTools(DiskTier<?, ?> tier) {
    this.tier = tier;
  }

  /**
   * An entry.
   *
   * @param key at most the first 100 bytes of the key: as text if they are UTF-8 without control characters, else in
   *     hexadecimal; hidden if the content of the cache is secret
   * @param uses the number of reads since the key got a value, the cache was opened or an eviction last spared the
   *     entry, whichever came last; 3 at most
   * @param diskBytes the size of the entry on disk
   * @param createdMillis when its value was created, in milliseconds since 1970
   */
  public record TopEntry(String key, int uses, long diskBytes, long createdMillis) {}

  /** The order of {@link #top}. */
  public enum Order {
    /** The largest entries first. */
    SIZE,
    /** The most used entries first; of those that are used equally, the largest first. */
    USES;

    private Comparator<TopEntry> comparator() {
      Comparator<TopEntry> bySize = Comparator.comparingLong(TopEntry::diskBytes);
      return this == SIZE ? bySize : Comparator.comparingInt(TopEntry::uses).thenComparing(bySize);
    }
  }

  /** Returns the name of the cache, {@code PLUGIN.NAME} for that of a plugin. */
  public String name() {
    return tier.name();
  }

  /** Returns the statistics of the cache. */
  public CacheStat stat() {
    return CacheStat.of(tier.stores().spec(), upkeep().figures(), shared());
  }

  private Map<String, Long> shared() {
    if (tier.shared() == null) {
      return null;
    }
    Map<String, Long> counts = new LinkedHashMap<>();
    for (Counts.Event event : Counts.Event.values()) {
      counts.put(event.label(), tier.shared().tier().counts().of(event));
    }
    return counts;
  }

  /** Returns whether the values of the cache are shared with other servers. */
  public boolean isShared() {
    return tier.shared() != null;
  }

  /** Reads and verifies every record. */
  public Cache.Verified verify() {
    return upkeep().verify();
  }

  /**
   * Frees dead space in the files as {@link Cache#compact} does, and waits for it. Returns the number of bytes by which
   * the files shrank.
   */
  public long compact() {
    return upkeep().compact();
  }

  /**
   * Returns the first entries in an order; none if the cache has no files. This walks over all entries.
   *
   * @param count the maximum number of entries, from 1 to {@value #TOP_MAX}
   * @throws IllegalArgumentException if {@code count} is out of range
   */
  public List<TopEntry> top(int count, Order order) {
    if (count < 1 || count > TOP_MAX) {
      throw new IllegalArgumentException("from 1 to " + TOP_MAX + " entries can be shown, not " + count);
    }
    Comparator<TopEntry> comparator = order.comparator();
    PriorityQueue<TopEntry> first = new PriorityQueue<>(comparator);
    upkeep()
        .forEach(
            (key, value, created, uses, bytes) -> {
              TopEntry entry = new TopEntry(SECRET, uses, bytes, created);
              if (first.size() < count || comparator.compare(entry, first.peek()) > 0) {
                first.add(isSecret() ? entry : new TopEntry(shown(key), uses, bytes, created));
                if (first.size() > count) {
                  first.poll();
                }
              }
              return true;
            });
    List<TopEntry> entries = new ArrayList<>(first);
    entries.sort(comparator.reversed());
    return entries;
  }

  /**
   * Writes all intact entries with their ages to a stream, for a backup or another server. Returns their number.
   *
   * @throws IllegalStateException if the content of the cache is secret, or there are no files
   */
  public long exportTo(OutputStream to) {
    refuseSecrets();
    return upkeep().exportTo(to);
  }

  /**
   * Imports an export of this cache in this version. A value in the cache that is as new as the exported one, or newer,
   * is kept. A value that was invalidated after the export may come back.
   *
   * @throws IllegalStateException if the content of the cache is secret, or there are no files
   */
  public Cache.Imported importFrom(InputStream from) {
    refuseSecrets();
    return upkeep().importFrom(from);
  }

  private void refuseSecrets() {
    if (isSecret()) {
      throw new IllegalStateException(whySecret());
    }
  }

  /** Returns why {@link #exportTo} and {@link #importFrom} refuse a cache that {@link #isSecret}. */
  public String whySecret() {
    return name() + " holds secrets: use `refdb cache` on its folder, which exports such a cache only with --secrets";
  }

  /** Returns whether the content of the cache is secret: it contains sessions or tokens, or is encrypted. */
  public boolean isSecret() {
    return tier.isSecret() || tier.stores().spec().keys().current() != null;
  }

  private static String shown(byte[] key) {
    int end = Math.min(key.length, SHOWN_KEY_BYTES_MAX);
    while (end > 0 && end < key.length && (key[end] & CONTINUES_MASK) == CONTINUES) {
      end--; // a text that is cut within a character would not be text
    }
    ByteBuffer bytes = ByteBuffer.wrap(key, 0, end);
    String cut = key.length > SHOWN_KEY_BYTES_MAX ? "..." : "";
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(bytes.duplicate()).toString();
      if (text.chars().noneMatch(Character::isISOControl)) {
        return text + cut;
      }
    } catch (CharacterCodingException e) {
      // The key is not text.
    }
    return HexFormat.of().formatHex(key, 0, bytes.remaining()) + cut;
  }

  private Store.Upkeep upkeep() {
    return tier.stores().get().upkeep();
  }
}
