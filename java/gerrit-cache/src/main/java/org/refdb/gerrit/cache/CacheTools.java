package org.refdb.gerrit.cache;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.PriorityQueue;
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.store.Store;

/** What administrators may do to one persistent cache's files while the server uses them. */
public final class CacheTools {
  /** The most entries that {@link #top} shows. */
  public static final int TOP_MAX = 1000;

  private static final int SHOWN_KEY_BYTES_MAX = 100;
  private static final String SECRET = "(secret)";

  private final DiskTier<?, ?> tier;

  CacheTools(DiskTier<?, ?> tier) {
    this.tier = tier;
  }

  /**
   * An entry.
   *
   * @param key its key: text where it is text, else hexadecimal; not shown if it is a secret
   * @param uses how often it was read since it was last copied, 0 to 3
   * @param diskBytes what it takes on disk
   * @param createdMillis when its value was made, in milliseconds since 1970
   */
  public record TopEntry(String key, int uses, long diskBytes, long createdMillis) {}

  /** What comes first in {@link #top}. */
  public enum Order {
    /** The largest entries. */
    SIZE,
    /** The entries used most, of these the largest. */
    USES;

    private Comparator<TopEntry> comparator() {
      Comparator<TopEntry> bySize = Comparator.comparingLong(TopEntry::diskBytes);
      return this == SIZE ? bySize : Comparator.comparingInt(TopEntry::uses).thenComparing(bySize);
    }
  }

  /** The cache's name, {@code PLUGIN.NAME} for a plugin's. */
  public String name() {
    return tier.name();
  }

  /** Its figures. */
  public CacheStat stat() {
    return CacheStat.of(tier.stores().spec(), upkeep().figures());
  }

  /** Reads every record and checks that it is whole. */
  public Cache.Verified verify() {
    return upkeep().verify();
  }

  /** Frees the dead space in its files and waits for it; returns how many bytes they lost. */
  public long compact() {
    return upkeep().compact();
  }

  /**
   * The first entries in an order, after a walk over all.
   *
   * @param count how many, 1 to {@value #TOP_MAX}
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
   * Writes all entries with their ages to a stream, for a backup or another server; returns how many.
   *
   * @throws IllegalStateException if the cache's content is secret, or there are no files
   */
  public long exportTo(OutputStream to) {
    refuseSecrets();
    return upkeep().exportTo(to);
  }

  /**
   * Takes the entries of an export of this cache in this version. A value that is as new or newer stays; one that was
   * invalidated since the export comes back.
   *
   * @throws IllegalStateException if the cache's content is secret, or there are no files
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

  /** Why it is neither exported nor imported while it is in use. */
  public String whySecret() {
    return name() + " holds secrets: use the program refdb on its folder, which asks for --secrets";
  }

  /** Whether its content is nobody's to see: it is one of sessions or tokens, or it is encrypted. */
  public boolean isSecret() {
    return tier.isSecret() || tier.stores().spec().keys().current() != null;
  }

  private static String shown(byte[] key) {
    ByteBuffer bytes = ByteBuffer.wrap(key, 0, Math.min(key.length, SHOWN_KEY_BYTES_MAX));
    String cut = key.length > SHOWN_KEY_BYTES_MAX ? "..." : "";
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(bytes.duplicate()).toString();
      if (text.chars().noneMatch(Character::isISOControl)) {
        return text + cut;
      }
    } catch (CharacterCodingException e) {
      // no text, then
    }
    return HexFormat.of().formatHex(key, 0, bytes.remaining()) + cut;
  }

  private Store.Upkeep upkeep() {
    return tier.stores().get().upkeep();
  }
}
