package org.refdb.gerrit.install;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ConfigFileTest {
  @TempDir Path folder;

  @Test
  void addingAndRemovingLeavesTheRestByteForByte() throws IOException {
    String before =
        "# ours\n[gerrit] ; the main thing\n\tbasePath = git\r\n\n[gerrit \"sub\"]\n\tinstallModule = not.this\n"
            + "[index]\n  type=LUCENE";
    ConfigFile file = file(before);
    assertTrue(file.add("gerrit", "installModule", "a.B"));
    assertFalse(file.add("gerrit", "installModule", "a.B"), "a second time it is there");
    file.write();
    assertEquals(
        before.replace("the main thing\n", "the main thing\n\tinstallModule = a.B\n"), Files.readString(path()));
    ConfigFile again = ConfigFile.read(path());
    assertEquals(List.of("a.B"), again.values("gerrit", "installmodule"));
    assertTrue(again.remove("GERRIT", "installModule", "a.B"));
    again.write();
    assertEquals(before, Files.readString(path()));
  }

  @Test
  void aSectionThatIsMissingIsMade() throws IOException {
    ConfigFile file = file("[index]\n\ttype = LUCENE");
    file.add("gerrit", "installModule", "a.B");
    file.write();
    assertEquals("[index]\n\ttype = LUCENE\n[gerrit]\n\tinstallModule = a.B\n", Files.readString(path()));
  }

  @Test
  void whatAnAdministratorHasSetIsNeitherSetNorUnset() throws IOException {
    String before = "[receive]\n\ttimeout = 4 min\n";
    ConfigFile file = file(before);
    assertTrue(file.setUnlessSet("receive", "enableInMemoryRefCache", "false"));
    assertEquals(List.of("false"), file.values("receive", "enableInMemoryRefCache"));
    assertFalse(file.setUnlessSet("receive", "enableInMemoryRefCache", "false"), "a second time it is there");
    assertTrue(file.unset("receive", "enableInMemoryRefCache"));
    assertFalse(file.unset("receive", "enableInMemoryRefCache"));
    file.write();
    assertEquals(before, Files.readString(path()));
    for (String theirs : List.of("true", "false", "false # as refdb wants it")) {
      String set = "[receive]\n\tenableInMemoryRefCache = " + theirs + "\n";
      ConfigFile own = file(set);
      assertFalse(own.setUnlessSet("receive", "enableInMemoryRefCache", "false"), theirs);
      assertFalse(own.unset("receive", "enableInMemoryRefCache"), theirs);
      own.write();
      assertEquals(set, Files.readString(path()));
    }
  }

  @Test
  void valuesAreReadAsGitReadsThem() throws IOException {
    ConfigFile file =
        file(
            "[gerrit] installModule = a.A\n\tINSTALLMODULE = \"b.B\" # why\n;installModule = c.C\n[Gerrit]\n"
                + "installModule=d.D ; e\n");
    assertEquals(List.of("a.A", "b.B", "d.D"), file.values("gerrit", "installModule"));
    assertTrue(file.remove("gerrit", "installModule", "a.A"));
    assertEquals(List.of("b.B", "d.D"), file.values("gerrit", "installModule"), "the section's header stays");
  }

  /** Gerrit accepts such bytes, which an old comment in another encoding may have. */
  @Test
  void bytesThatAreNoUtf8AndAByteOrderMarkStay() throws IOException {
    for (Charset charset : List.of(StandardCharsets.ISO_8859_1, StandardCharsets.UTF_8)) {
      String before =
          (charset == StandardCharsets.UTF_8 ? "\uFEFF" : "")
              + "[container] user = m\u00fcller\n# f\u00fcr alle\n";
      Files.write(path(), before.getBytes(charset));
      ConfigFile file = ConfigFile.read(path());
      assertEquals(List.of("m\u00fcller"), file.values("container", "user"));
      file.add("gerrit", "installModule", "a.B");
      file.write();
      assertEquals(before + "[gerrit]\n\tinstallModule = a.B\n", Files.readString(path(), charset));
    }
  }

  @Test
  void permissionsAndALinkToTheFileStay() throws IOException {
    Path real = folder.resolve("real.config");
    Files.writeString(real, "[gerrit]\n");
    Files.setPosixFilePermissions(real, PosixFilePermissions.fromString("rw-r-----"));
    Files.createSymbolicLink(path(), real);
    ConfigFile file = ConfigFile.read(path());
    file.add("gerrit", "installModule", "a.B");
    file.write();
    assertTrue(Files.isSymbolicLink(path()));
    assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(real)));
    assertEquals("[gerrit]\n\tinstallModule = a.B\n", Files.readString(real));
  }

  private Path path() {
    return folder.resolve("gerrit.config");
  }

  private ConfigFile file(String content) throws IOException {
    Files.writeString(path(), content);
    return ConfigFile.read(path());
  }
}
