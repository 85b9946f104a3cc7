package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.lib.RepositoryCache;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class RefdbAdminTest {
  @TempDir Path site;

  @Test
  void figuresOfANameThatIsNoProjectAreNotKept() throws IOException {
    RefdbRepositoryManager manager = Sites.manager(site, Sites.config());
    RefdbAdmin admin = new RefdbAdmin(manager);
    for (int i = 0; i < 1000; i++) {
      assertEquals("no project " + i, admin.stat(Project.nameKey("no project " + i)).project());
    }
    assertEquals(0, manager.states().size());
    assertEquals(0, admin.stats().size());
  }

  /** If a lock were removed as a broken ref, its holder would write beside the next one who takes the lock. */
  @Test
  void aLockIsNoBrokenRefAndStays() throws IOException {
    RefdbRepositoryManager manager = Sites.manager(site, Sites.config());
    Project.NameKey demo = Project.nameKey("demo");
    manager.createRepository(demo).close();
    RefdbAdmin admin = new RefdbAdmin(manager);
    for (String name : List.of("refs/heads/main.lock", "refs/heads/main.bak")) {
      Path file = Files.writeString(site.resolve("git/demo.git").resolve(name), "");
      boolean isLock = name.endsWith(".lock");
      assertEquals(!isLock, admin.deleteBroken(demo, name), name);
      assertEquals(isLock, Files.exists(file), name);
    }
    RepositoryCache.clear();
  }
}
