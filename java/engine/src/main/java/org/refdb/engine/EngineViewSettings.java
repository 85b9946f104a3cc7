package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The settings of a repository's view.
 *
 * @param packedRefs how far packed-refs' attributes are trusted
 * @param looseRefs how far loose refs' are
 * @param tablesList how far those of a reftable stack's list are
 * @param believeMillis time that an answer is given again without a look at the disk, best 0
 * @param sync whether refs are on stable storage when a commit returns
 * @param config settings {@code key=value} that outrank the repository's configuration
 */
public record EngineViewSettings(
    Trust packedRefs, Trust looseRefs, Trust tablesList, long believeMillis, Sync sync, List<String> config) {

  /** What attributes of a file say of its content; JGit's {@code core.trustStat}. */
  public enum Trust {
    /** Equal attributes mean equal content. */
    ALWAYS,
    /** They do once the file has been opened. */
    AFTER_OPEN,
    /** They say nothing: the file is read again. */
    NEVER
  }

  /** Whether refs are brought to stable storage. */
  public enum Sync {
    /** They are not. */
    NO,
    /** They are. */
    YES,
    /** As {@code core.fsync} says. */
    AS_CONFIGURED
  }

  /** As a server wants it: attributes are trusted, and commits are on stable storage. */
  public static EngineViewSettings defaults() {
    return new EngineViewSettings(Trust.ALWAYS, Trust.ALWAYS, Trust.ALWAYS, 0, Sync.YES, List.of());
  }

  void pack(Packer request) {
    request.u8(packedRefs.ordinal()).u8(looseRefs.ordinal()).u8(tablesList.ordinal());
    request.i64(believeMillis).u8(sync.ordinal()).i32(config.size());
    for (String setting : config) {
      request.bytes(setting.getBytes(StandardCharsets.UTF_8));
    }
  }
}
