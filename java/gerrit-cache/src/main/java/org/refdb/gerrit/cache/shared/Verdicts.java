package org.refdb.gerrit.cache.shared;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.patch.IntraLineDiff;
import com.google.gerrit.server.patch.filediff.FileDiffOutput;
import com.google.gerrit.server.patch.gitfilediff.GitFileDiff;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The verdict on each persistent cache of Gerrit. Each was found by reading what the key of the cache names and what
 * its loader reads; docs/operating/caches.md has the reasons. {@code NEVER} holds for each version of a cache, any other
 * verdict for the versions and types that were read.
 */
final class Verdicts {
  private static final Map<String, Row> TABLE = new HashMap<>();

  /**
   * A verdict, and the cache that was read for it.
   *
   * @param versions the versions of the cache for which the verdict holds
   * @param key the end of the name of the type of the cache's keys
   * @param value the end of the name of the type of the cache's values
   */
  private record Row(Verdict verdict, Set<Integer> versions, String key, String value) {
    boolean holdsFor(PersistentCacheDef<?, ?> def) {
      return versions.contains(def.version())
          && def.keyType().toString().endsWith(key)
          && def.valueType().toString().endsWith(value);
    }
  }

  /** The caches that are never shared, in whatever version. */
  private static final Set<String> NEVER =
      Set.of(
          "web_sessions",
          "oauth_tokens",
          "external_ids_map",
          "conflicts",
          "mergeability",
          "git_tags",
          "changes_by_project",
          "comment_context");

  static {
    add(Verdict.SHARE, "change_notes", 11, "ChangeNotesCache$Key", "ChangeNotesState");
    add(Verdict.SHARE, "accounts", 2, "CachedAccountDetails$Key", "CachedAccountDetails");
    add(Verdict.SHARE, "groups_byuuid_persisted", 1, "Cache$GroupKeyProto", "InternalGroup");
    add(Verdict.SHARE, "persisted_projects", 4, "Cache$ProjectCacheKeyProto", "CachedProjectConfig");
    add(Verdict.SHARE, "groups_external_persisted", 1, "java.lang.String", "AccountGroup$UUID>");
    add(Verdict.IF_NAMED, "gerrit_file_diff", 10, "FileDiffCacheKey", "FileDiffOutput");
    add(Verdict.IF_NAMED, "git_file_diff", 3, "GitFileDiffCacheKey", "GitFileDiff");
    add(Verdict.IF_NAMED, "modified_files", 4, "ModifiedFilesCacheKey", "ModifiedFile>");
    add(Verdict.IF_NAMED, "git_modified_files", 2, "GitModifiedFilesCacheKey", "ModifiedFile>");
    add(Verdict.IF_NAMED, "change_kind", 1, "ChangeKindCacheImpl$Key", "ChangeKind");
    add(Verdict.IF_NAMED, "pure_revert", 1, "Cache$PureRevertKeyProto", "java.lang.Boolean");
    add(Verdict.IF_NAMED_AND_SEALED, "diff_summary", 0, "DiffSummaryKey", "DiffSummary");
    add(Verdict.IF_NAMED_AND_SEALED, "diff_intraline", 0, "IntraLineDiffKey", "IntraLineDiff");
  }

  private Verdicts() {}

  private static void add(Verdict verdict, String cache, int version, String key, String value) {
    TABLE.put(cache, new Row(verdict, Set.of(version), key, value));
  }

  static Verdict of(PersistentCacheDef<?, ?> def) {
    if (NEVER.contains(def.name())) {
      return Verdict.NEVER;
    }
    Row row = TABLE.get(def.name());
    return row != null && row.holdsFor(def) ? row.verdict : Verdict.UNKNOWN;
  }

  /** Returns the caches on which there is a verdict. */
  static List<String> names() {
    return Stream.concat(TABLE.keySet().stream(), NEVER.stream()).sorted().toList();
  }

  /** Returns whether a value says only that a node ran out of time, or failed. */
  static boolean isNegative(Object value) {
    return switch (value) {
      case FileDiffOutput diff -> diff.isNegative();
      case GitFileDiff diff -> diff.isNegative();
      case IntraLineDiff diff -> diff.getStatus() != IntraLineDiff.Status.EDIT_LIST;
      default -> false;
    };
  }
}
