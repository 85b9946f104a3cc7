package org.refdb.gerrit.cache;

import java.util.Locale;
import java.util.Map;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * Figures of one persistent cache's files, counted since it was opened but for sizes.
 *
 * @param name the cache, {@code PLUGIN.NAME} for a plugin's
 * @param version of its serialisation
 * @param inMemoryOnly whether it has no files, for a reason that is in Gerrit's log
 * @param encrypted whether keys and values are encrypted
 * @param entries entries, those included that are too old but not swept yet
 * @param liveBytes their bytes
 * @param diskBytes bytes of the files
 * @param limitBytes the most bytes the files may have
 * @param hits reads that found a value
 * @param misses reads that found none
 * @param expired reads that found one that is too old
 * @param hitRatio what share of the reads found a value, 0 to 1; null before the first
 * @param hitRatioAtHalf what it would be at half the limit, as far as a sample tells; null without one
 * @param hitRatioAtTwice what it would be at twice the limit
 * @param evicted entries dropped to keep the limit
 * @param refused values not stored since the disk was behind, or too large
 * @param corrupt records that failed their checksum, and were misses
 * @param diskErrors writes that failed
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
    long diskErrors) {

  static CacheStat of(StoreOpener.Spec spec, Map<String, Long> figures) {
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
        of.get("limit_bytes"),
        of.get("hits"),
        of.get("misses"),
        of.get("expired"),
        ratio(of.get("hits"), of.get("hits") + of.get("misses")),
        ratio(of.get("sampled_hits_half"), sampled),
        ratio(of.get("sampled_hits_twice"), sampled),
        of.get("evicted"),
        of.get("refused"),
        of.get("corrupt"),
        of.get("disk_errors"));
  }

  private interface Figures {
    long get(String name);
  }

  private static Double ratio(long part, long whole) {
    return whole == 0 ? null : (double) part / whole;
  }

  /** A few lines for people. */
  public String text() {
    if (inMemoryOnly) {
      return name + ": in memory only, see error_log";
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
