package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gerrit.server.account.AccountCacheImpl;
import com.google.gerrit.server.account.GroupCacheImpl;
import com.google.gerrit.server.account.GroupIncludeCacheImpl;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.change.ChangeKindCacheImpl;
import com.google.gerrit.server.change.MergeabilityCacheImpl;
import com.google.gerrit.server.comment.CommentContextCacheImpl;
import com.google.gerrit.server.git.PureRevertCache;
import com.google.gerrit.server.git.TagCache;
import com.google.gerrit.server.notedb.ChangeNotesCache;
import com.google.gerrit.server.patch.PatchListCacheImpl;
import com.google.gerrit.server.patch.diff.ModifiedFilesCacheImpl;
import com.google.gerrit.server.patch.filediff.FileDiffCacheImpl;
import com.google.gerrit.server.patch.filediff.FileDiffOutput;
import com.google.gerrit.server.patch.gitdiff.GitModifiedFilesCacheImpl;
import com.google.gerrit.server.patch.gitfilediff.GitFileDiffCacheImpl;
import com.google.gerrit.server.project.ProjectCacheImpl;
import com.google.gerrit.server.query.change.ConflictsCacheImpl;
import com.google.inject.Module;
import com.google.inject.spi.Element;
import com.google.inject.spi.Elements;
import com.google.inject.spi.ProviderInstanceBinding;
import java.util.Map;
import java.util.TreeMap;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;

/** The table of verdicts beside the caches that Gerrit really has. */
class VerdictsTest {
  private static Map<String, Verdict> verdictsOnGerritsCaches() {
    Map<String, Verdict> verdicts = new TreeMap<>();
    Module[] modules = {
      ChangeNotesCache.module(), AccountCacheImpl.module(), GroupCacheImpl.module(), GroupIncludeCacheImpl.module(),
      ProjectCacheImpl.module(), FileDiffCacheImpl.module(), GitFileDiffCacheImpl.module(),
      ModifiedFilesCacheImpl.module(), GitModifiedFilesCacheImpl.module(), ChangeKindCacheImpl.module(),
      PureRevertCache.module(), PatchListCacheImpl.module(), MergeabilityCacheImpl.module(),
      ConflictsCacheImpl.module(), CommentContextCacheImpl.module(), TagCache.module()
    };
    for (Element element : Elements.getElements(modules)) {
      if (element instanceof ProviderInstanceBinding<?> binding
          && binding.getUserSuppliedProvider() instanceof PersistentCacheDef<?, ?> def) {
        verdicts.put(def.name(), Verdicts.of(def));
      }
    }
    return verdicts;
  }

  /**
   * The table is for one version of Gerrit. In another one a cache may differ and then counts as unknown, until its
   * code has been read.
   */
  @Test
  void theTableHoldsForTheCachesOfTheGerritThatWasRead() {
    String jar = ChangeNotesCache.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    assumeTrue(jar.contains("-3.13."), jar);
    Map<String, Verdict> expected = new TreeMap<>();
    for (String shared :
        new String[] {
          "change_notes", "accounts", "groups_byuuid_persisted", "persisted_projects", "groups_external_persisted"
        }) {
      expected.put(shared, Verdict.SHARE);
    }
    for (String named :
        new String[] {
          "gerrit_file_diff", "git_file_diff", "modified_files", "git_modified_files", "change_kind", "pure_revert"
        }) {
      expected.put(named, Verdict.IF_NAMED);
    }
    expected.put("diff_summary", Verdict.IF_NAMED_AND_SEALED);
    expected.put("diff_intraline", Verdict.IF_NAMED_AND_SEALED);
    for (String never : new String[] {"conflicts", "mergeability", "git_tags", "comment_context"}) {
      expected.put(never, Verdict.NEVER);
    }
    assertEquals(expected, verdictsOnGerritsCaches());
  }

  @Test
  void noGerritSharesWhatIsNeverShared() {
    verdictsOnGerritsCaches()
        .forEach(
            (cache, verdict) -> {
              if (verdict == Verdict.SHARE) {
                assertTrue(Verdicts.names().contains(cache), cache);
              }
            });
    assertTrue(Verdicts.names().containsAll(java.util.List.of("web_sessions", "oauth_tokens", "external_ids_map")));
  }

  @Test
  void theResultOfATimeoutIsNegative() {
    ObjectId id = ObjectId.zeroId();
    assertTrue(Verdicts.isNegative(FileDiffOutput.createNegative("file", id, id)));
    assertFalse(Verdicts.isNegative("a value"));
  }
}
