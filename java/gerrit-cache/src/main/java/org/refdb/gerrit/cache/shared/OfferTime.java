package org.refdb.gerrit.cache.shared;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.refdb.gerrit.cache.store.CacheFolder;

/**
 * Knows from when on the values that this node has in a cache may be offered to other nodes. In the files there may be
 * values from before the last flush, or from before the present version of Gerrit and the present settings, which are
 * not what this node would compute now.
 *
 * <p>A note beside the files says what values depend on and since when, and the last generation (see {@link
 * Generations}) that this node has seen. It is kept whether the cache is shared or not, so that what a node has
 * computed before can be offered once the cache is shared.
 */
public final class OfferTime {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final String NOTE = "offers";

  /** By how much the clocks of nodes may differ. */
  private static final long SKEW_MILLIS = 60_000;

  /** The value of {@link #sinceMillis} before the files were opened: nothing in them may be offered. */
  private static final long UNKNOWN = Long.MAX_VALUE - SKEW_MILLIS;

  private static final int PARTS = 4;
  private static final String NO_GENERATION = "-";
  private static final String MILLIS = "[0-9]{1,18}";

  private final CacheFolder folder;
  private final int version;
  private final String context;

  /** What the files have from before this time is not known to be what this node would compute now. */
  private long sinceMillis;
  private String generation = NO_GENERATION;

  /** When {@link #generation} began, which makes older values void; 0 if it makes none void. */
  private long generationMillis;

  /**
   * Creates the time of a cache.
   *
   * @param folder the folder of its files; null if it has none, so that no process before this one has left values in it
   * @param version its version
   * @param context a hash of what values depend on beside their keys
   */
  public OfferTime(CacheFolder folder, int version, String context) {
    this.folder = folder;
    this.version = version;
    this.context = context;
    this.sinceMillis = folder == null ? 0 : UNKNOWN;
  }

  /** Notes that the files were opened, so that values may be stored in them from now on. */
  public synchronized void opened() {
    String[] parts = note();
    boolean isKnown = parts.length == PARTS && parts[0].equals(context);
    if (isKnown && parts[1].matches(MILLIS) && parts[3].matches(MILLIS)) {
      sinceMillis = Long.parseLong(parts[1]);
      generation = parts[2];
      generationMillis = Long.parseLong(parts[3]);
    } else {
      sinceMillis = System.currentTimeMillis();
      generation = NO_GENERATION;
      save();
    }
  }

  /**
   * Returns the time, in milliseconds since 1970, after which a value must have been created to be offered in a
   * generation. Values from before the generation are void, unless it is the first, and this node knows no other.
   */
  synchronized long fromMillis(String present) {
    if (!present.equals(generation)) {
      boolean nothingWasFlushed = generation.equals(NO_GENERATION) && Generations.isFirst(present);
      generationMillis = nothingWasFlushed ? 0 : Generations.millis(present);
      generation = present;
      if (sinceMillis != UNKNOWN) { // else the note may be that of a process which has the files open
        save();
      }
    }
    return Math.max(sinceMillis, generationMillis) + SKEW_MILLIS;
  }

  private String[] note() {
    try {
      String note = folder.note(version, NOTE);
      return note == null ? new String[0] : note.strip().split(" ", -1);
    } catch (IOException e) {
      return new String[0];
    }
  }

  private void save() {
    if (folder == null) {
      return;
    }
    try {
      folder.note(version, NOTE, String.join(" ", context, "" + sinceMillis, generation, "" + generationMillis) + "\n");
    } catch (IOException e) {
      logger.atWarning().atMostEvery(1, TimeUnit.MINUTES).log(
          "Cannot note since when values of a cache are known to be good; after a restart fewer are offered: %s", e);
    }
  }
}
