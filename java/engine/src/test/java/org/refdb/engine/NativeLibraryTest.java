package org.refdb.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeLibraryTest {
  @TempDir Path folder;

  @Test
  void loadingLeavesNothingBehindAndCanBeRepeated() throws Exception {
    Path unpack = folder.resolve("made/when/missing");
    loadApart(unpack, Function.identity());
    try (Stream<Path> left = Files.list(unpack)) {
      assertEquals(0, left.count());
    }
    NativeLibrary.load(unpack, "choose");
    SiteLibrary.load(unpack);
    assertTrue(NativeLibrary.isLoaded());
  }

  /** NFS renames the file of a loaded library instead of removing it, which was taken for a failure previously. */
  @Test
  void aFolderThatCannotBeRemovedYetIsRemovedByALaterStart() throws Exception {
    AtomicReference<Path> renamed = new AtomicReference<>();
    Thread nfs =
        new Thread(
            () -> {
              while (renamed.get() == null) {
                try (DirectoryStream<Path> folders = Files.newDirectoryStream(folder)) {
                  for (Path one : folders) {
                    renamed.set(Files.createFile(one.resolve(".nfs0001")));
                  }
                } catch (IOException | DirectoryIteratorException e) {
                  // It is gone already.
                }
              }
            });
    nfs.setDaemon(true);
    nfs.start();
    while (renamed.get() == null) { // the folder may be gone before the thread has seen it
      loadApart(folder, Function.identity());
    }
    nfs.join();
    Path left = renamed.get().getParent();
    Files.delete(renamed.get());
    loadApart(folder, Function.identity());
    assertTrue(Files.exists(left), "another process may be about to use it");
    Files.setLastModifiedTime(left, FileTime.from(Instant.now().minusSeconds(7200)));
    loadApart(folder, Function.identity());
    assertFalse(Files.exists(left));
  }

  @Test
  void aLibraryOfAnotherVersionIsRefused() {
    EngineLoadProblem problem =
        assertThrows(EngineLoadProblem.class, () -> loadApart(folder, version -> "version=0.0.1\n"));
    assertTrue(problem.getMessage().contains("0.0.1"), problem.getMessage());
    assertTrue(problem.getMessage().contains(NativeLibrary.version()), problem.getMessage());
  }

  @Test
  void aFolderThatCannotBeWrittenIsNamed() throws IOException {
    Path file = Files.createFile(folder.resolve("file"));
    EngineLoadProblem problem =
        assertThrows(EngineLoadProblem.class, () -> loadApart(file.resolve("below"), Function.identity()));
    assertTrue(problem.getMessage().contains(file.toString()), problem.getMessage());
    assertTrue(problem.getMessage().contains("set a.b to another folder"), problem.getMessage());
  }

  @Test
  void aFolderOfAnotherUserIsNamedWithItsOwnerAndTheSettingThatHasAnEffect() {
    String advice =
        LoadAdvice.ofUnpacking(new AccessDeniedException(folder.toString()), folder, "set refdb.nativeDirectory to");
    String user = System.getProperty("user.name");
    assertTrue(advice.contains("user " + user + " may not write there, the folder belongs to " + user), advice);
    assertTrue(advice.contains("set refdb.nativeDirectory to another folder"), advice);
  }

  @Test
  void eachReasonOfTheLinkerHasItsAdvice() {
    Platform platform = new Platform("linux-x86_64");
    String[][] cases = {
      {"x.so: failed to map segment from shared object", "noexec"},
      {"libc.so.6: version `GLIBC_2.34' not found (required by x.so)", "older"},
      {"libc.musl-x86_64.so.1: cannot open shared object file", "not glibc"},
      {"x.so: wrong ELF class: ELFCLASS32", "linux-x86_64"},
      {"x.so: cannot open shared object file (Possible cause: can't load AARCH64 .so on a AMD 64 platform)",
          "linux-x86_64"},
      {"something else", "something else"},
    };
    for (String[] one : cases) {
      String advice = LoadAdvice.of(one[0], Path.of("x.so"), platform, "set");
      assertTrue(advice.contains(one[1]) && advice.contains(one[0]), advice);
    }
  }

  @Test
  void platformsAreNamedAsTheJarsFolders() {
    assertEquals("linux-x86_64", Platform.of("Linux", "amd64").folder());
    assertEquals("linux-aarch64", Platform.of("Linux", "aarch64").folder());
    Platform none = Platform.of("Plan 9", "mips");
    EngineLoadException missing = assertThrows(EngineLoadException.class, none::open);
    assertTrue(missing.getMessage().contains("plan-9-mips"), missing.getMessage());
  }

  /** Loads the library in classes of its own, as if this were another JVM. */
  private void loadApart(Path unpack, Function<String, String> properties) throws Exception {
    URL[] classes = {NativeLibrary.class.getProtectionDomain().getCodeSource().getLocation()};
    try (URLClassLoader loader =
        new URLClassLoader(classes, ClassLoader.getPlatformClassLoader()) {
          @Override
          public InputStream getResourceAsStream(String name) {
            InputStream given = super.getResourceAsStream(name);
            if (!name.endsWith("engine.properties")) {
              return given;
            }
            try (given) {
              String text = new String(given.readAllBytes(), StandardCharsets.UTF_8);
              return new ByteArrayInputStream(properties.apply(text).getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
              throw new IllegalStateException(e);
            }
          }
        }) {
      Class<?> library = loader.loadClass(NativeLibrary.class.getName());
      try {
        library.getMethod("load", Path.class, String.class).invoke(null, unpack, "set a.b to");
      } catch (InvocationTargetException e) {
        assertEquals(EngineLoadException.class.getName(), e.getCause().getClass().getName());
        throw new EngineLoadProblem(e.getCause().getMessage());
      }
    }
  }

  private static final class EngineLoadProblem extends Exception {
    private static final long serialVersionUID = 1L;

    EngineLoadProblem(String message) {
      super(message);
    }
  }
}
