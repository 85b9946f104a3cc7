package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.git.DelegateRefDatabase;
import com.google.gerrit.server.git.DelegateRepository;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.RepositoryCache;
import org.eclipse.jgit.transport.ReceivePack;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class PushRefsTest {
  private static final Project.NameKey DEMO = Project.nameKey("demo");

  /** As Gerrit's repository of a push: it hides one ref from the user, and fails if refs of changes are listed. */
  private static final class Visible extends DelegateRepository {
    private final String hidden;

    Visible(Repository delegate, String hidden) {
      super(delegate);
      this.hidden = hidden;
    }

    @Override
    public RefDatabase getRefDatabase() {
      return new DelegateRefDatabase(delegate()) {
        @Override
        public List<Ref> getRefsByPrefix(String prefix) throws IOException {
          if (prefix.startsWith("refs/changes/") || "refs/changes/".startsWith(prefix)) {
            throw new AssertionError("refs of changes are listed, by the prefix " + prefix);
          }
          return super.getRefsByPrefix(prefix).stream().filter(ref -> !ref.getName().equals(hidden)).toList();
        }
      };
    }
  }

  @TempDir Path site;

  @AfterEach
  void forget() {
    RepositoryCache.clear();
  }

  private ReceivePack push(Config config) throws IOException {
    RefdbRepositoryManager manager = Sites.manager(site, config);
    try (Repository repository = manager.createRepository(DEMO)) {
      for (String name :
          List.of(
              "refs/heads/main", "refs/heads/secret", "refs/tags/v1", "refs/meta/config", "refs/c", "refs/single",
              "refs/changes/01/1/1", "refs/changes/01/1/meta", "refs/cache-automerge/00/1")) {
        RefdbRepositoryManagerTest.create(repository, name);
      }
      ReceivePack push = new ReceivePack(new Visible(repository, "refs/heads/secret"));
      new PushRefs(manager, config).init(DEMO, push);
      return push;
    }
  }

  @Test
  void whereGerritKeepsNoMapOfAllRefsThoseOfChangesAreNotListed() throws IOException {
    Config config = Sites.config();
    config.setBoolean("receive", null, "enableInMemoryRefCache", false);
    ReceivePack push = push(config);
    assertEquals(
        Set.of("refs/heads/main", "refs/tags/v1", "refs/meta/config", "refs/c", "refs/single"),
        push.getAdvertisedRefs().keySet());
    assertEquals(5, push.getAdvertisedObjects().size());
  }

  @Test
  void withGerritsDefaultNothingIsDone() throws IOException {
    assertNull(push(Sites.config()).getAdvertisedRefs());
  }
}
