/* The files of page/ as text; made by cmake/page.cmake. */
#ifndef PSGD_REPORT_PAGE_H
#define PSGD_REPORT_PAGE_H

extern const char psgd__page_html[], psgd__page_style[], psgd__page_chart[], psgd__page_report[];

#endif
