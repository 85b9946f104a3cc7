package org.refdb.gerrit.cache;

import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * Statistics of the files of a persistent cache. Entries and sizes are those of the moment; reads and other events are
 * counted since the cache was opened.
 *
 * @param name the name of the cache, {@code PLUGIN.NAME} for that of a plugin
 * @param version the version of its serialisation
 * @param inMemoryOnly whether it has no files, because it is shared and configured without them, or for a reason that
 *     is in the log of Gerrit
 * @param encrypted whether keys and values are encrypted
 * @param entries the number of entries, including expired ones that are not removed yet
 * @param liveBytes the size of these entries in bytes
 * @param diskBytes the size of the files in bytes
 * @param limitBytes the maximum size of the files in bytes
 * @param hits reads that found a value
 * @param misses reads that found none, or only an expired one
 * @param expired those of the misses that found an expired value
 * @param hitRatio the share of reads that found a value, from 0 to 1; null before the first read
 * @param hitRatioAtHalf an estimate of that share at half the limit, from a sample; null without one
 * @param hitRatioAtTwice an estimate of that share at twice the limit; null without a sample
 * @param evicted entries that were dropped to stay within the limit, or because they had expired or were damaged
 * @param refused attempts to store a value for which there was no room; a value may be refused several times before it
 *     is stored
 * @param corrupt how often a record or a footer was found damaged; a damaged record is never returned
 * @param diskErrors writes and syncs that failed
 * @param shared what happened in the tier that servers share, by the names of the metrics; null if the cache is not
 *     shared
 */
public record CacheStat(
    String name,
    int version,
    boolean inMemoryOnly,
    boolean encrypted,
    long entries,
    long liveBytes,
    long diskBytes,
    long limitBytes,
    long hits,
    long misses,
    long expired,
    Double hitRatio,
    Double hitRatioAtHalf,
    Double hitRatioAtTwice,
    long evicted,
    long refused,
    long corrupt,
    long diskErrors,
    Map<String, Long> shared) {

  static CacheStat of(StoreOpener.Spec spec, Map<String, Long> figures, Map<String, Long> shared) {
    Figures of = name -> figures.getOrDefault(name, 0L);
    long sampled = of.get("sampled");
    return new CacheStat(
        spec.name(),
        spec.version(),
        figures.isEmpty(),
        spec.keys().current() != null,
        of.get("entries"),
        of.get("live_bytes"),
        of.get("disk_bytes"),
        figures.isEmpty() ? spec.limitBytes() : of.get("limit_bytes"),
        of.get("hits"),
        of.get("misses"),
        of.get("expired"),
        ratio(of.get("hits"), of.get("hits") + of.get("misses")),
        ratio(of.get("sampled_hits_half"), sampled),
        ratio(of.get("sampled_hits_twice"), sampled),
        of.get("evicted"),
        of.get("refused"),
        of.get("corrupt"),
        of.get("disk_errors"),
        shared);
  }

  private interface Figures {
    long get(String name);
  }

  private static Double ratio(long part, long whole) {
    return whole == 0 ? null : (double) part / whole;
  }

  /** Returns the statistics as text. */
  public String text() {
    return shared == null ? localText() : localText() + "\n  shared: " + sharedText();
  }

  private String sharedText() {
    return shared.entrySet().stream()
        .map(count -> count.getKey().replace('_', ' ') + " " + count.getValue())
        .collect(Collectors.joining(", "));
  }

  private String localText() {
    if (inMemoryOnly) {
      return name + (limitBytes > 0 || shared == null ? ": in memory only, see error_log" : ": in memory only");
    }
    return """
        %s, version %d%s: %d entries, %d bytes of %d on disk, limit %d
          reads: %d found, %d not, %d too old; hit ratio %s (%s at half the limit, %s at twice)
          evicted %d, refused %d, corrupt %d, disk errors %d"""
        .formatted(
            name, version, encrypted ? ", encrypted" : "", entries, liveBytes, diskBytes, limitBytes, hits, misses,
            expired, percent(hitRatio), percent(hitRatioAtHalf), percent(hitRatioAtTwice), evicted, refused, corrupt,
            diskErrors);
  }

  private static String percent(Double ratio) {
    return ratio == null ? "-" : String.format(Locale.ROOT, "%.1f %%", ratio * 100);
  }
}
