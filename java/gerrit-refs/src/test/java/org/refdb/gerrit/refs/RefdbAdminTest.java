package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gerrit.entities.Project;
import java.io.IOException;
import java.nio.file.Path;
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
}
