package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The settings of a view of a repository.
 *
 * @param packedRefs how far the file attributes of packed-refs are trusted
 * @param looseRefs how far those of loose refs are trusted; {@code AFTER_OPEN} has the effect of {@code NEVER} here
 * @param tablesList how far those of the list of a reftable stack are trusted
 * @param alwaysSet whether {@code ALWAYS} is configured explicitly for some kind of refs, not merely the default; the
 *     engine warns of such a setting on a network file system
 * @param believeMillis the time in milliseconds during which an answer is repeated without reading from disk;
 *     preferably 0
 * @param sync whether refs are on stable storage when a commit returns
 * @param config settings {@code KEY=VALUE}, or {@code KEY} for true, that override the configuration of the repository
 */
public record EngineViewSettings(
    Trust packedRefs,
    Trust looseRefs,
    Trust tablesList,
    boolean alwaysSet,
    long believeMillis,
    Sync sync,
    List<String> config) {

  /**
   * How far the attributes of a file are trusted to reveal changes of its content; see {@code core.trustStat} in JGit.
   */
  public enum Trust {
    /**
     * Equal attributes mean equal content, unless the file changed so recently that a further change could leave the
     * same time stamp. On a network file system this is {@link #AFTER_OPEN}.
     */
    ALWAYS,
    /** Equal attributes mean equal content once the file has been opened. */
    AFTER_OPEN,
    /** Attributes are not trusted, and the file is read again. */
    NEVER
  }

  /** Whether refs are synced to stable storage. */
  public enum Sync {
    /** Refs are not synced. */
    NO,
    /** Refs are synced. */
    YES,
    /** The setting {@code core.fsync} decides. */
    AS_CONFIGURED
  }

  /** Returns the settings for a server: attributes are trusted, and commits are synced. */
  public static EngineViewSettings defaults() {
    return new EngineViewSettings(Trust.ALWAYS, Trust.ALWAYS, Trust.ALWAYS, false, 0, Sync.YES, List.of());
  }

  /** Returns the same settings with other lines of configuration. */
  public EngineViewSettings with(List<String> lines) {
    return new EngineViewSettings(packedRefs, looseRefs, tablesList, alwaysSet, believeMillis, sync, lines);
  }

  void pack(Packer request) {
    request.u8(packedRefs.ordinal()).u8(looseRefs.ordinal()).u8(tablesList.ordinal());
    request.u8(alwaysSet ? 1 : 0);
    request.i64(believeMillis).u8(sync.ordinal()).i32(config.size());
    for (String setting : config) {
      request.bytes(setting.getBytes(StandardCharsets.UTF_8));
    }
  }
}
