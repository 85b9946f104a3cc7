package org.refdb.gitservlet;

import java.io.File;
import java.net.InetSocketAddress;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jgit.http.server.GitServlet;
import org.eclipse.jgit.http.server.resolver.DefaultReceivePackFactory;
import org.eclipse.jgit.transport.resolver.FileResolver;

/**
 * Serves the repositories below the folder {@code args[0]} with JGit's GitServlet on a port of the loopback interface,
 * and prints {@code HOST:PORT}. Everybody may read, and push where {@code http.receivepack} is true.
 */
public final class Server {
  private Server() {}

  /** Serves until the process is killed. */
  public static void main(String[] args) throws Exception {
    var servlet = new GitServlet();
    servlet.setRepositoryResolver(new FileResolver<>(new File(args[0]), true));
    servlet.setReceivePackFactory(new DefaultReceivePackFactory());
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(servlet), "/*");
    var server = new org.eclipse.jetty.server.Server(new InetSocketAddress("127.0.0.1", 0));
    server.setHandler(context);
    server.start();
    System.out.println("127.0.0.1:" + server.getURI().getPort());
    server.join();
  }
}
